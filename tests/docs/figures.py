"""Tables in README, docs/ and research/, made from the files that `eval/run.py` writes."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.conftest import ROOT

RESULTS = ROOT / "eval" / "results"
README, RESULTS_PAGE = ROOT / "README.md", ROOT / "docs" / "results.md"
FULL, WORTH = ROOT / "research" / "results.md", ROOT / "research" / "worth.md"
PAIRS = {"bundled": ("German–English", "all"), "hansards": ("French–English", "hansards447")}
"""Experiments of the short tables: the languages, and the gold that counts."""

GOLDS = {"all": "both, 184 sentences", "hansards447": "447 sentences"}
"""What pages call sets of gold, if not by their names."""

SEEDS = {
    "bundled": ("three seeds", ["bundled", "seed 2", "seed 3"]),
    "hansards": ("three seeds, 45 minutes", ["seed 1", "seed 2", "seed 3"]),
}
"""Column titles of models of these experiments that differ in a seed, and the name of each."""

SHORT = {
    "two models (`--reverse-model`)": " and .*: norm, both, soft",
    "one model": r"^\S+: norm, both, threshold",
    "two models, `--position input`": " and .*: norm, input, soft",
    "one model, `--position input`": r"^\S+: norm, input, threshold",
    "eflomal, its best run": r"eflomal \((bundled|hansards) text",
    "MGIZA, its best run": r"giza \((bundled|hansards) text",
    "fast_align, its best run": r"fast_align \((bundled|hansards) text",
}
"""Names in the short tables for the best of the systems that match."""

FEW = ("two models (`--reverse-model`)", "MGIZA, its best run", "one model")
"""Rows of README."""

PAPER = {"all heads of a layer, by norm, as published": "norm", "the same, by weight": "weight"}
"""Names in the short table for a layer's heads together, and their score."""

SEEDED = {
    "two models (`--reverse-model`)": "two models: norm, both, soft",
    "one model": "one model: norm, both, threshold",
    "two models, `--position input`": "two models: norm, input, soft",
    "one model, `--position input`": "one model: norm, input, threshold",
}
"""What the table of seeds calls those of them that have any."""


def rate(value: str, interval: str) -> str:
    """An error rate with its interval, as pages show it."""
    return f"{value} ({interval.replace(' to ', '–')})"


def read_tsv(path: Path) -> tuple[str, list[dict[str, str]]]:
    """The signature and the rows of a file."""
    signature, *lines = path.read_text(encoding="utf-8").splitlines()
    return signature.removeprefix("# "), list(csv.DictReader(lines, delimiter="\t"))


def long_table(experiment: str) -> str:
    """All systems, and the signature below them."""
    signature, systems = read_result(f"{experiment}.systems")
    golds = [key.removeprefix("aer_") for key in systems[0] if key.startswith("aer_")] if systems else []
    rows = [
        [
            row["system"],
            *(rate(row[f"aer_{gold}"], row[f"interval_{gold}"]) for gold in golds),
            *(row[key] for key in ("precision", "recall", "p")),
        ]
        for row in systems
    ]
    heads = [GOLDS.get(gold, gold) for gold in golds]
    return table_of(["one direction, or both symmetrised", *heads, "P", "R", "p"], rows, signature)


def readme_table() -> str:
    """Make the table of README: a few rows without seeds, best first."""
    columns = [short_column(experiment, gold) for experiment, (_, gold) in PAIRS.items()]
    if not all(columns):
        return ""
    names = sorted(FEW, key=lambda name: columns[0][name][0])
    rows = [[name, *(column[name][1] for column in columns)] for name in names]
    return table_of(["", *(f"AER, {languages}" for languages, _ in PAIRS.values())], rows)


def short_table() -> str:
    """Make the table of docs/results.md, best first, a column for each pair of languages."""
    columns = [short_column(experiment, gold) for experiment, (_, gold) in PAIRS.items()]
    if not all(columns):
        return ""
    names = sorted(columns[0], key=lambda name: columns[0][name][0])
    heads, lines = [""], [[name] for name in names]
    for column, (experiment, (languages, _)) in zip(columns, PAIRS.items(), strict=True):
        heads += [f"AER, {languages}", SEEDS[experiment][0]]
        seeded = seeds_column(experiment)
        for name, line in zip(names, lines, strict=True):
            line += [column[name][1], seeded.get(name, "")]
    return table_of(heads, lines)


def seeds_column(experiment: str) -> dict[str, str]:
    """Mean and standard deviation over the seeds, of those of the few that have any."""
    _, rows = read_result(f"{experiment}_seeds.seeds")
    _, layers = read_result(f"{experiment}_seeds.layers")
    shown = {
        name: f"{row['mean']}±{row['sd']}"
        for name, kind in SEEDED.items()
        for row in rows
        if row["system"].startswith(kind)
    }
    for name, score in PAPER.items():
        for row in layers:
            if (row["position"], row["score"]) == ("input", score):
                shown[name] = row["best"].replace(" (", "±").rstrip(")")
    return shown


def short_column(experiment: str, gold: str) -> dict[str, tuple[float, str]]:
    """The best error rate of each of the few, and how it is shown."""
    _, systems = read_result(f"{experiment}.systems")
    if not systems:
        return {}
    shown: dict[str, tuple[float, str]] = {}
    for name, pattern in SHORT.items():
        found = [row for row in systems if re.search(pattern, row["system"])]
        best = min(found, key=lambda row: float(row[f"aer_{gold}"]))
        shown[name] = float(best[f"aer_{gold}"]), rate(best[f"aer_{gold}"], best[f"interval_{gold}"])
    _, compared = read_result(f"{experiment}.comparisons")
    paper, *_ = (row for row in compared if row["what"] == "norm and weight, input")
    for name, which in zip(PAPER, ("first", "second"), strict=True):
        shown[name] = float(paper[f"{which}_aer"]), rate(paper[f"{which}_aer"], paper[f"{which}_interval"])
    return shown


def seeds_table(experiment: str) -> str:
    """Error rates of models that differ in a seed."""
    sign, rows = read_result(f"{experiment}_seeds.seeds")
    lines = [[row["system"], row["mean"], row["sd"], *row["each"].split()] for row in rows]
    return table_of(["", "mean AER", "sd", *SEEDS[experiment][1]], lines, sign)


SELF_TOLD = [
    *sorted((ROOT / "research").glob("analysis/*.md")),
    ROOT / "research" / "choices.md",
    ROOT / "research" / "planning.md",
    ROOT / "docs" / "many-files.md",
]
"""Pages whose tables say themselves which results they show."""

SHOWN = re.compile(r"<!-- ([\w.-]+)(?: \[([^\]]*)\])?(?:: (.*))? -->\n(?:.*\n)*?<!-- end -->\n")
"""A table of results: `NAME.TABLE [key=value, ...]: columns`; without either, all rows, all columns."""


def told_table(mark: re.Match[str]) -> str:
    """A table with its marks, as the results have it today."""
    name, wanted, columns = mark[1], mark[2] or "", mark[3]
    places = [folder / f"{name}.tsv" for folder in (RESULTS, RESULTS / "analysis")]
    sign, rows = read_tsv(next(path for path in places if path.exists()))
    for condition in filter(None, map(str.strip, wanted.split(","))):
        key, _, value = condition.partition("=")
        rows = [row for row in rows if row[key] == value]
    keys = [key.strip() for key in columns.split(",")] if columns else list(rows[0])
    lines = [[re.sub(r"(?<=\d) to (?=-?\d)", "–", row[key]).replace("|", "\\|") for key in keys] for row in rows]
    table = table_of([key.replace("_", " ") for key in keys], lines, sign)
    return f"{mark[0].partition(chr(10))[0]}\n{table}<!-- end -->\n"


def current(page: Path) -> str:
    """What a page should be, with the tables of today."""
    text = page.read_text(encoding="utf-8")
    text = SHOWN.sub(told_table, text)
    for name, make in MARKED[page].items():
        text = between(name).sub(lambda match, make=make: f"{match[1]}{make()}{match[2]}", text)  # type: ignore[misc]
    return text


# Between the marks of a page. A table that has not been measured yet is empty.


def between(name: str) -> re.Pattern[str]:
    """What stands in a page between the marks of a table."""
    return re.compile(rf"(<!-- {name} -->\n)(?:.*\n)*?(<!-- end of {name} -->\n)")


def read_result(name: str) -> tuple[str, list[dict[str, str]]]:
    """A table of results: its signature, and its rows; none where it has not been measured."""
    path = RESULTS / f"{name}.tsv"
    return read_tsv(path) if path.exists() else ("", [])


def plain(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def table_of(heads: list[str], rows: list[list[str]], *signatures: str) -> str:
    """A Markdown table, with signatures below it; nothing where there are no rows."""
    if not rows:
        return ""
    lines = [f"| {' | '.join(cells)} |" for cells in (heads, *rows)]
    lines.insert(1, "|---" * len(heads) + "|")
    return "\n".join([*lines, *(part for sign in signatures for part in ("", f"`{sign}`")), ""])


def peers_table() -> str:
    """Seconds by system and number of pairs; for what was measured on a sample, its rate alone."""
    sign, rows = read_result("benchmark_peers")
    names = list(dict.fromkeys(row["name"] for row in rows))
    found = {(row["name"], int(row["pairs"])): row for row in rows}
    sizes = sorted({int(row["pairs"]) for row in rows if not is_sample(row)})
    lines = []
    for name in names:
        cells = [found.get((name, size)) for size in sizes]
        largest = max((row for row in rows if row["name"] == name), key=lambda row: int(row["pairs"]))
        seconds = [plain(float(row["seconds"])) if row else "" for row in cells]
        lines.append([name, *seconds, plain(float(largest["rate"]))])
    heads = ["seconds for", *(f"{size:,} pairs" for size in sizes), "lines/s"]
    picture = "\n![Seconds over number of pairs](../eval/results/benchmark_peers.png)\n" if rows else ""
    return table_of(heads, lines, sign) + picture


def is_sample(row: dict[str, str]) -> bool:
    """Whether a system did not take the whole text."""
    return row["system"].startswith("encoder-")


def against_table() -> str:
    """How many times as fast this tree is as another commit."""
    sign, rows = read_result("benchmark_against")
    heads = ["", "commit", "arithmetic", "start-up", "lines/s", "ratio of lines/s (min–max)", "lines with other links"]
    lines = [
        [
            *(row[key] for key in ("directions", "revision", "dtype")),
            f"{float(row['start_up']):.1f} s",
            plain(float(row["rate"])),
            f"{float(row['rate_ratio']):.2f} ({row['rate_spread'].replace(' to ', '–')})",
            row["other"],
        ]
        for row in rows
    ]
    return table_of(heads, lines, sign)


def dtypes_table() -> str:
    """What narrower products change; those of all layers alike."""
    sign, rows = read_result("bundled.dtypes")
    heads = ["", "arithmetic", "lines changed", "links changed", "AER", "p"]
    lines = [
        [
            f"{row['models']} model{'s' * (row['models'] != 'one')}",
            row["products"],
            f"{float(row['lines changed']):.1f} %",
            f"{float(row['links changed']):.2f} %",
            rate(row["aer_all"], row["interval_all"]),
            row["p"].replace("n/a", ""),
        ]
        for row in rows
        if row["products"] in ("float32", "bfloat16", "int8")
    ]
    return table_of(heads, lines, sign)


def waiting_table() -> str:
    """Uses of the cores and ways to wait, beside what extract-align does by default."""
    sign, rows = read_result("benchmark_waiting")
    heads = ["", "waiting", "arithmetic", "busy processes beside it", "lines/s", "ratio to the default (min–max)"]
    lines = [
        [
            *(row[key] for key in ("what", "waiting", "dtype", "load")),
            plain(float(row["rate"])),
            f"{float(row['ratio']):.2f} ({row['ratio_spread'].replace(' to ', '–')})",
        ]
        for row in rows
    ]
    return table_of(heads, lines, sign)


def view_table() -> str:
    """How fast pages for a browser open."""
    sign, rows = read_result("view")
    heads = ["sentences", "MB", "seconds until the first words (slowest)"]
    lines = [[f"{int(row['sentences']):,}", row["megabytes"], f"{row['seconds']} ({row['slowest']})"] for row in rows]
    return table_of(heads, lines, sign)


def with_unit(row: dict[str, str]) -> str:
    """A value as pages show it."""
    return f"{plain(float(row['value']))} {row['unit'].replace('x', '×')}"


def huggingface_table() -> str:
    """Extraction beside transformers' forward pass, a column for each kind of model."""
    sign, rows = read_result("benchmark_huggingface")
    names = list(dict.fromkeys(row["part"] for row in rows))
    found = {(row["part"], row["what"]): with_unit(row) for row in rows}
    lines = [
        [what, *(found.get((name, what), "") for name in names)] for what in dict.fromkeys(what for _, what in found)
    ]
    return table_of(["", *names], lines, sign)


def parts_table() -> str:
    """Ratios, shares and peaks."""
    tables = [read_result(name) for name in ("benchmark", "benchmark_memory")]
    lines = [[row["what"], with_unit(row)] for _, rows in tables for row in rows]
    return table_of(["", ""], lines, *(sign for sign, _ in tables))


def thresholds_table(experiment: str) -> str:
    """What other thresholds are good for."""
    sign, rows = read_result(f"{experiment}.worth")
    lines = [
        [row["system"], row["what"], rate(row["value"], row["interval"]), f"{float(row['threshold']):.2f}"]
        for row in rows
    ]
    return table_of(["", "", "%", "threshold"], lines, sign)


def reliability_table() -> str:
    """How often a link is right, by its score and by system."""
    _, rows = read_result("bundled.worth.scores")
    systems = list(dict.fromkeys(row["system"] for row in rows))
    found = {(row["from"], row["to"], row["system"]): row for row in rows}
    lines = []
    for low, high in dict.fromkeys((row["from"], row["to"]) for row in rows):
        cells = [found[low, high, system] for system in systems]
        lines.append(
            [f"{low} to {high}", *(f"{rate(row['right'], row['interval'])} of {row['links']}" for row in cells)]
        )
    return table_of(["score", *(f"{system}: right, %" for system in systems)], lines)


def markup_table(experiment: str) -> str:
    """Tags that came to stand where gold links have them, by system and rule: around spans, and at places."""
    sign, rows = read_result(f"{experiment}.markup")
    found = {(row["system"], row["rule"], row["gold"], row["kind"]): row for row in rows}
    golds = list(dict.fromkeys(row["gold"] for row in rows))
    lines = []
    for system, rule in dict.fromkeys((row["system"], row["rule"]) for row in rows):
        cells = [found[system, rule, gold, "spans"] for gold in golds]
        point = found[system, rule, golds[-1], "point"]
        shown = [rate(row["exact"], row["interval"]) for row in (*cells, point)]
        lines.append([f"{system}: {rule}", *shown[:-1], cells[-1]["p"].replace("n/a", ""), shown[-1]])
    names = [gold.replace("all", "both") for gold in golds]
    return table_of(
        ["", *(f"spans, {name}" for name in names), "p", *(f"points, {name}" for name in names[-1:])], lines, sign
    )


MARKED: dict[Path, dict[str, Callable[[], str]]] = {
    README: {"aer": readme_table},
    RESULTS_PAGE: {"aer": short_table, "peers": peers_table, "reliability": reliability_table},
    FULL: {
        "aer": partial(long_table, "bundled"),
        "aer of Hansards": partial(long_table, "hansards"),
        "seeds": partial(seeds_table, "bundled"),
        "seeds of Hansards": partial(seeds_table, "hansards"),
        "peers": peers_table,
        "against": against_table,
        "dtypes": dtypes_table,
        "waiting": waiting_table,
        "huggingface": huggingface_table,
        "parts": parts_table,
        "view": view_table,
        "markup": partial(markup_table, "bundled"),
        "markup of Hansards": partial(markup_table, "hansards"),
    },
    WORTH: {
        "thresholds": partial(thresholds_table, "bundled"),
        "thresholds of Hansards": partial(thresholds_table, "hansards"),
        "reliability": reliability_table,
    },
    **{page: {} for page in SELF_TOLD},
}
"""By page, what stands between its marks."""
