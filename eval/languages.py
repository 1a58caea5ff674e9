"""How often the check of languages warns: of texts in the model's languages (never, it should), and of others.

A text is a run of lines of one source, given at once. Of the experiment's training text each source is measured, as it
is and with its sides swapped; all other training texts are in other languages. Message catalogues in many languages,
such as those in /usr/share/locale, add English messages with their translations; the German ones are right, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from random import Random

from common import find_experiment, paths_of, read_config, read_labels, read_lines_of, swapped, write_table

from align import Pair
from align.core.text import make_pair
from align.evaluation.metrics import SEED
from align.evaluation.tables import Column, Value
from align.io.signature import signature
from align.models.language_check import LanguageCheck

CODES = "ar ca cs da es fi fr hi hu it ja ko nb nl pl pt_BR ro ru sv tr uk vi zh_CN"
SIZES = (1, 2, 3, 5, 10, 30, 100)
COLUMNS = [
    *(Column("text", "text"), Column("texts", "texts of each length")),
    *(Column(str(size), f"{size} lines, %", 2) for size in SIZES),
]


def read_catalogs(folder: Path, language: str, names: bool = False) -> list[Pair]:
    """Read translations of English messages, or of names of places, languages and scripts, with the English ones."""
    import polib

    files = [path for path in folder.glob(f"{language}/LC_MESSAGES/*.mo") if path.name.startswith("iso_") == names]
    entries = (entry for path in sorted(files) for entry in polib.mofile(path))
    texts = [(" ".join(entry.msgstr.split()), " ".join(entry.msgid.split())) for entry in entries]
    return [make_pair(*text, number) for number, text in enumerate(texts, 1) if all(text)]


def row_of(name: str, pairs: Sequence[Pair], languages: tuple[str, str], texts: int) -> dict[str, Value]:
    """Return the percentage of texts of each length that are warned of."""
    random = Random(SEED)
    row: dict[str, Value] = {"text": name, "texts": texts}
    for size in SIZES:
        starts = [random.randrange(max(1, len(pairs) - size + 1)) for _ in range(texts)]
        checks = [LanguageCheck("model", *languages).add(pairs[start : start + size]) for start in starts]
        row[str(size)] = 100 * sum(map(bool, checks)) / texts
    return row


def run(data: Path, config: Path, experiment: str, catalogs: Path | None, texts: int, output: Path) -> None:
    """Measure, print, write."""
    settings = read_config(config)
    about = settings["train"][find_experiment(settings, experiment)["train"][0]]
    source, target = about["languages"]
    pairs, sources = read_lines_of(about, data), defaultdict(list)
    for label, pair in zip(read_labels(about, data) or ["text"] * len(pairs), pairs, strict=True):
        sources[label].append(pair)
    if catalogs:
        sources |= {"messages": read_catalogs(catalogs, source), "names": read_catalogs(catalogs, source, names=True)}
    rows = [row_of(f"right: {label}", found, (source, target), texts) for label, found in sources.items()]
    means = {str(size): sum(float(str(row[str(size)])) for row in rows) / len(rows) for size in SIZES}
    rows.append({"text": "right: all", "texts": texts * len(rows), **means})
    others = {"swapped": swapped(pairs)}
    for name, other in settings["train"].items():
        there = all(path.exists() for path in paths_of(other, "source", data))
        if there and other.get("languages") != about["languages"]:
            others[name] = read_lines_of(other, data)
    if catalogs:
        read = {f"messages, {code}": read_catalogs(catalogs, code) for code in CODES.split()}
        others |= {name: found for name, found in read.items() if found}
    rows += [row_of(f"other: {name}", found, (source, target), texts) for name, found in others.items()]
    sign = signature({"texts": texts, "py3langid": version("py3langid"), "seed": SEED}, "languages")
    write_table(COLUMNS, rows, sign, output / "languages.tsv")
