"""Tables in README and docs/results.md, out of what `eval/run.py` writes: error rates, and how long what takes."""

from __future__ import annotations

import csv
import re
import textwrap
from collections.abc import Callable
from pathlib import Path

from tests.conftest import ROOT

RESULTS = ROOT / "eval" / "results"
README, PAGE = ROOT / "README.md", ROOT / "docs" / "results.md"
WORTH = ROOT / "docs" / "worth.md"
MARKUP = ROOT / "docs" / "markup.md"
TABLES = {
    README: re.compile(r"^\| \| AER \|\n(?:\|.*\n)*", re.MULTILINE),
    PAGE: re.compile(r"^\| one direction.*?(?=^\(`python)", re.MULTILINE | re.DOTALL),
}
"""Where the tables are."""

SHORT = {
    "two models (`--reverse-model`)": " and .*: norm, both, soft",
    "one model": "de-en: norm, both, threshold",
    "two models, `--position input`": " and .*: norm, input, soft",
    "one model, `--position input`": "de-en: norm, input, threshold",
    "eflomal, its best direction or symmetrisation": r"eflomal \(bundled text\)",
    "fast_align, its best direction or symmetrisation": r"fast_align \(bundled text\)",
}
"""What README calls the best of the systems whose names match."""


def rate(value: str, interval: str) -> str:
    """An error rate with its interval, as pages show it."""
    return f"{value} ({interval.replace(' to ', '–')})"


def read(name: str) -> tuple[str, list[dict[str, str]]]:
    """A table of results: its signature, and its rows."""
    return read_tsv(RESULTS / f"bundled.{name}.tsv")


def read_tsv(path: Path) -> tuple[str, list[dict[str, str]]]:
    """The signature and the rows of a file."""
    signature, *lines = path.read_text(encoding="utf-8").splitlines()
    return signature.removeprefix("# "), list(csv.DictReader(lines, delimiter="\t"))


def long_table() -> str:
    """All systems, and the signature below them."""
    signature, systems = read("systems")
    rows = ["| one direction, or both symmetrised | dev84 | bicici100 | both, 184 sentences | P | R | p |"]
    rows.append("|---" * 7 + "|")
    for row in systems:
        rates = [rate(row[f"aer_{name}"], row[f"interval_{name}"]) for name in ("dev84", "bicici100", "all")]
        rows.append(f"| {' | '.join([row['system'], *rates, row['precision'], row['recall'], row['p']])} |")
    return "\n".join([*rows, "", f"`{signature}`", "", ""])


def short_table() -> str:
    """The few that README has, best first."""
    shown: list[tuple[float, str, str]] = []
    for name, pattern in SHORT.items():
        found = [row for row in read("systems")[1] if re.search(pattern, row["system"])]
        best = min(found, key=lambda row: float(row["aer_all"]))
        shown.append((float(best["aer_all"]), name, rate(best["aer_all"], best["interval_all"])))
    paper, *_ = (row for row in read("comparisons")[1] if row["what"] == "norm and weight, input")
    for name, which in (("the paper's way: all heads of a layer, by norm", "first"), ("the same by weight", "second")):
        aer = paper[f"{which}_aer"]
        shown.append((float(aer), name, rate(aer, paper[f"{which}_interval"])))
    return "\n".join(["| | AER |", "|---|---|", *(f"| {name} | {aer} |" for _, name, aer in sorted(shown)), ""])


SELF_TOLD = [
    *sorted((ROOT / "docs" / "analysis").glob("*.md")),
    *(ROOT / "docs" / name for name in ("clusters.md", "planning.md", "serve.md", "shards.md")),
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
    if page in SELF_TOLD:
        return SHOWN.sub(told_table, text)
    if page in TABLES:
        table = short_table() if page == README else long_table()
        text = TABLES[page].sub(lambda _: table, text)
    for name, make in SPEED[page].items():
        text = between(name).sub(lambda match, make=make: f"{match[1]}{make()}{match[2]}", text)  # type: ignore[misc]
    return text


# How long what takes. A table that has not been measured yet is empty.


def between(name: str) -> re.Pattern[str]:
    """What stands in a page between the marks of a table."""
    return re.compile(rf"(<!-- {name} -->\n)(?:.*\n)*?(<!-- end of {name} -->\n)")


def read_speed(name: str) -> tuple[str, list[dict[str, str]]]:
    """A table of speeds: its signature, and its rows; none where it has not been measured."""
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
    sign, rows = read_speed("benchmark_peers")
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
    sign, rows = read_speed("benchmark_against")
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
    sign, rows = read_speed("bundled.dtypes")
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
    sign, rows = read_speed("benchmark_waiting")
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
    sign, rows = read_speed("view")
    heads = ["sentences", "MB", "seconds until the first words (slowest)"]
    lines = [[f"{int(row['sentences']):,}", row["megabytes"], f"{row['seconds']} ({row['slowest']})"] for row in rows]
    return table_of(heads, lines, sign)


def with_unit(row: dict[str, str]) -> str:
    """A value as pages show it."""
    return f"{plain(float(row['value']))} {row['unit'].replace('x', '×')}"


def huggingface_table() -> str:
    """Extraction beside transformers' forward pass, a column for each kind of model."""
    sign, rows = read_speed("benchmark_huggingface")
    names = list(dict.fromkeys(row["part"] for row in rows))
    found = {(row["part"], row["what"]): with_unit(row) for row in rows}
    lines = [
        [what, *(found.get((name, what), "") for name in names)] for what in dict.fromkeys(what for _, what in found)
    ]
    return table_of(["", *names], lines, sign)


def parts_table() -> str:
    """Ratios, shares and peaks."""
    tables = [read_speed(name) for name in ("benchmark", "benchmark_memory")]
    lines = [[row["what"], with_unit(row)] for _, rows in tables for row in rows]
    return table_of(["", ""], lines, *(sign for sign, _ in tables))


def speed_in_short() -> str:
    """README's words on the text of the middle size."""
    _, rows = read_speed("benchmark_peers")
    rows = [row for row in rows if not is_sample(row)]
    if not rows:
        return ""
    sizes = sorted({int(row["pairs"]) for row in rows})
    size = sizes[len(sizes) // 2]
    seconds = {row["name"]: plain(float(row["seconds"])) for row in rows if int(row["pairs"]) == size}
    listed = "; ".join(f"{name}: {value}" for name, value in seconds.items())
    text = f"Seconds for {size:,} pairs, from raw text to links, training and start-up included: {listed}."
    return textwrap.fill(text, 130, break_on_hyphens=False) + "\n"


def thresholds_table() -> str:
    """What other thresholds are good for."""
    sign, rows = read_speed("bundled.worth")
    lines = [
        [row["system"], row["what"], rate(row["value"], row["interval"]), f"{float(row['threshold']):.2f}"]
        for row in rows
    ]
    return table_of(["", "", "%", "threshold"], lines, sign)


def reliability_table() -> str:
    """How often a link is right, by its score and by system."""
    _, rows = read_speed("bundled.worth.scores")
    systems = list(dict.fromkeys(row["system"] for row in rows))
    found = {(row["from"], row["to"], row["system"]): row for row in rows}
    lines = []
    for low, high in dict.fromkeys((row["from"], row["to"]) for row in rows):
        cells = [found[low, high, system] for system in systems]
        lines.append(
            [f"{low} to {high}", *(f"{rate(row['right'], row['interval'])} of {row['links']}" for row in cells)]
        )
    return table_of(["score", *(f"{system}: right, %" for system in systems)], lines)


def markup_table() -> str:
    """Tags that came to stand where gold links have them, by system and rule: around spans, and at places."""
    sign, rows = read_speed("bundled.markup")
    found = {(row["system"], row["rule"], row["gold"], row["kind"]): row for row in rows}
    lines = []
    for system, rule in dict.fromkeys((row["system"], row["rule"]) for row in rows):
        cells = [found[system, rule, gold, "spans"] for gold in ("dev84", "bicici100", "all")]
        point = found[system, rule, "all", "point"]
        shown = [rate(row["exact"], row["interval"]) for row in (*cells, point)]
        lines.append([f"{system}: {rule}", *shown[:3], cells[2]["p"].replace("n/a", ""), shown[3]])
    heads = ["", "spans, dev84", "spans, bicici100", "spans, both", "p", "points, both"]
    return table_of(heads, lines, sign)


SPEED: dict[Path, dict[str, Callable[[], str]]] = {
    README: {"speed": speed_in_short},
    PAGE: {
        "peers": peers_table,
        "against": against_table,
        "dtypes": dtypes_table,
        "waiting": waiting_table,
        "huggingface": huggingface_table,
        "parts": parts_table,
        "view": view_table,
    },
    MARKUP: {"markup": markup_table},
    **{page: {} for page in SELF_TOLD},
    WORTH: {"thresholds": thresholds_table, "reliability": reliability_table},
}
"""By page, what stands between its marks."""
