"""How many real segments get their tags and placeholders back.

Segments are NAME.de and NAME.en in DATA/tags, one of them with tags, and NAME.ref, the other one as its authors tagged
it. Two bundled models align; a segment is correct if it equals the reference, values of href and folded spaces aside.
The rules were tuned on even lines; odd lines were counted several times meanwhile. Of the wrong even lines, the
last columns count those among the tenth whose least sure tag is least sure.

Paragraphs of a handbook in two languages, from Debian packages, have their translators' own tags; values of title and
spaces next to tags are not compared. No rule was tuned on them; some were dropped that won none there.

Messages of programs, from Debian packages: English ones with placeholders, and German ones without, which get them by
one model; spaces are folded. Rules were tuned on those of the first programs; those of the others were looked at once.
"""

from __future__ import annotations

import gettext
import operator
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from lxml import html

from align import Aligner, Pair, load, two_way
from align.core.types import FLOOR
from align.evaluation.tables import Column, Value
from align.io.signature import signature
from align.transfer.catalogs import split_line_ends
from align.transfer.inline import Inline
from align.transfer.tags import Syntax
from eval.common import write_table

SETS = {"html": ("html", "de", "en"), "xl": ("xml", "de", "en"), "ph": ("placeholders", "en", "de")}
"""Set: kind of tags, language of the tagged side, language of the other."""


class Segment(NamedTuple):
    """A segment, how its authors tagged it, and its scores."""

    inline: Inline
    reference: str
    scores: dict[tuple[int, int], float]

    def judge(self, compared: Callable[[str], str]) -> tuple[bool, float]:
        """Tell whether all tags are placed as in the reference, and how sure the least sure one is.

        Args:
            compared: returns a segment without what is not compared.
        """
        placed = self.inline.place(self.scores)
        return compared(placed.text) == compared(self.reference), placed.confidence


def fold(text: str) -> str:
    """Return a segment without what is not compared."""
    return " ".join(re.sub(r'href="[^"]*"', 'href=""', text).split())


def read_segments(folder: Path, name: str, aligner: Aligner) -> list[Segment]:
    """Read and align the segments of a set."""
    tags, *languages = SETS[name]
    files = (folder / f"{name}.{ending}" for ending in (*languages, "ref"))
    lines = [file.read_text(encoding="utf-8").split("\n")[:-1] for file in files]
    rows = [(Inline.of_line(line, target, tags), reference) for line, target, reference in zip(*lines, strict=True)]
    return align_segments(rows, aligner)


def align_segments(rows: Sequence[tuple[Inline, str]], aligner: Aligner) -> list[Segment]:
    """Align segments with references."""
    pairs = [Pair(inline.source_words, inline.target_words, n) for n, (inline, _) in enumerate(rows, 1)]
    alignments = aligner(pairs)
    return [Segment(*row, dict(one.scores)) for row, one in zip(rows, alignments, strict=True)]


def unpack(folder: Path, package: str) -> Path:
    """Return the folder with the content of a Debian package, which is downloaded if it is not there."""
    content = folder / package
    if not content.is_dir():
        if not any(folder.glob(f"{package}_*.deb")):
            subprocess.run(["apt-get", "-q", "download", package], cwd=folder, check=True)
        (archive,) = folder.glob(f"{package}_*.deb")
        subprocess.run(["dpkg-deb", "-x", archive, content], check=True)
    return content


def _without_spaces(text: str) -> str:
    """Return a text without the spaces next to tags."""
    return re.sub(" *(<[^>]*>) *", r"\1", text).strip(" ")


HANDBOOK = {"de": ("developers-reference-de", "**/de/*.html"), "en": ("developers-reference", "**/*.html")}
"""A handbook that no rule was tuned on: packages and pages in two languages."""


def read_handbook(folder: Path) -> list[tuple[str, str]]:
    """Return German and English paragraphs with inline tags: those that both have the same ones."""
    german, english = (
        {page.name: _paragraphs(page) for page in sorted(unpack(folder, package).glob(pattern))}
        for package, pattern in HANDBOOK.values()
    )
    names = [name for name in german if len(german[name]) == len(english.get(name, ()))]
    pairs = ((*pair,) for name in names for pair in zip(german[name], english[name], strict=True))
    return [*dict.fromkeys((de, en) for de, en in pairs if _is_comparable(de, en))]


def _paragraphs(page: Path) -> list[str]:
    """Return the inner HTML of a page's paragraphs."""
    root = html.parse(str(page), html.HTMLParser(encoding="utf-8")).getroot()
    texts = (html.tostring(element, encoding="unicode", with_tail=False) for element in root.iter("p"))
    return [" ".join(re.sub(r"^<p[^>]*>|</p>$", "", text.strip()).split()) for text in texts]


def _is_comparable(german: str, english: str) -> bool:
    """Tell whether two paragraphs of 4 to 60 words differ, and have the same inline tags, none of them an anchor."""
    tags = [
        Counter(re.sub(r' (href|title|target)="[^"]*"', "", tag) for tag in re.findall(r"<[a-z][^>]*>", side))
        for side in (german, english)
    ]
    texts = [re.sub("<[^>]*>", "", side) for side in (german, english)]
    plain = (
        tags[0] == tags[1]
        and tags[0]
        and not any(re.match("<(br|a (id|name)|a>|img|table|ul|ol|li|pre)", tag) for tag in tags[0])
    )
    return bool(plain) and texts[0] != texts[1] and 3 < len(texts[1].split()) < 61


def handbook_row(folder: Path, name: str, aligner: Aligner) -> dict[str, Value]:
    """Return the row of a handbook in one direction."""
    rows = []
    for german, english in read_handbook(folder):
        tagged, reference = (german, english) if name == "de-en" else (english, german)
        target = " ".join(re.sub("<[^>]*>", "", reference).split())
        rows.append((Inline.of_line(tagged, target, "html"), reference))
    judged = [segment.judge(fold_spaces) for segment in align_segments(rows, aligner)]
    wrong = sum(not right for right, _ in judged)
    row: dict[str, Value] = {"segments": f"paragraphs of a handbook, {name}"}
    row |= {"wrong": wrong, "wrong, least sure": wrong_of_tenth(judged)}
    return row | {"all": len(judged) - wrong, "of all": len(judged)}


CATALOGS = {
    "messages of wget, psmisc, GnuPG, coreutils": {
        "wget": "wget",
        "psmisc": "psmisc",
        "gnupg-l10n": "gnupg2",
        "coreutils": "coreutils",
    },
    "messages of git, PackageKit, util-linux": {
        "git": "git",
        "packagekit": "PackageKit",
        "util-linux-locales": "util-linux",
    },
}
"""Rows of messages: their packages and the names of the catalogs in them."""

MESSAGES = Syntax.of("placeholders")


def read_messages(folder: Path, package: str, name: str) -> list[tuple[str, str]]:
    """Return messages with placeholders and their German translations: those whose placeholders are the same."""
    (file,) = unpack(folder, package).glob(f"**/de/LC_MESSAGES/{name}.mo")
    with file.open("rb") as stream:
        catalog: dict[object, str] = vars(gettext.GNUTranslations(stream))["_catalog"]
    pairs = {(key.split("\x04")[-1], text) for key, text in catalog.items() if isinstance(key, str) and key and text}
    placeholders = {
        pair: [Counter(token.text for token in MESSAGES.parse(side) if token.kind != "text") for side in pair]
        for pair in pairs
    }
    return sorted(pair for pair, (ours, theirs) in placeholders.items() if ours and ours == theirs)


def messages_row(folder: Path, name: str, aligner: Aligner) -> dict[str, Value]:
    """Return the row of messages of several programs."""
    rows = []
    for package, catalog in CATALOGS[name].items():
        for message, translation in read_messages(folder, package, catalog):
            bare = "".join(token.text for token in MESSAGES.parse(translation) if token.kind == "text")
            source, target, _ = split_line_ends(message, fold_all(bare))
            rows.append((Inline.of_segment(source, target or "", MESSAGES), fold_all(translation).strip("\n")))
    judged = [segment.judge(lambda text: fold_all(text).strip("\n")) for segment in align_segments(rows, aligner)]
    wrong = sum(not right for right, _ in judged)
    row: dict[str, Value] = {"segments": name, "wrong": wrong, "wrong, least sure": wrong_of_tenth(judged)}
    return row | {"all": len(judged) - wrong, "of all": len(judged)}


def fold_all(text: str) -> str:
    """Return a text with single spaces, and none next to line ends."""
    return re.sub(r" *\n *", "\n", re.sub("[ \t\xa0]+", " ", text)).strip(" ")


def fold_spaces(text: str) -> str:
    """Return a segment without spaces next to tags, titles, and what `fold` leaves out."""
    return re.sub('title="[^"]*"', "", _without_spaces(fold(text)))


def wrong_of_tenth(judged: Sequence[tuple[bool, float]]) -> int:
    """Return how many of the tenth of some segments whose least sure tag is least sure are wrong."""
    tenth = sorted(judged, key=operator.itemgetter(1))[: round(len(judged) / 10)]
    return sum(not right for right, _ in tenth)


def row_of(name: str, segments: list[Segment]) -> dict[str, Value]:
    """Return the row of a set."""
    row: dict[str, Value] = {"segments": name}
    judged = [segment.judge(fold) for segment in segments]
    for lines, part in (("odd", judged[::2]), ("even", judged[1::2])):
        row |= {lines: sum(right for right, _ in part), f"of {lines}": len(part)}
    wrong = sum(not right for right, _ in judged[1::2])
    return row | {"wrong": wrong, "wrong, least sure": wrong_of_tenth(judged[1::2])}


COLUMNS = [
    *(Column(key, key) for key in ("segments", "odd", "of odd", "even", "of even")),
    *(Column(key, key) for key in ("wrong", "wrong, least sure", "all", "of all")),
]


def run(data: Path, packages: Path | None, output: Path) -> None:
    """Align, place, print, write."""
    models = {name: load(name, threshold=None, workers=1, scorer=None) for name in ("de-en", "en-de")}
    rows: list[dict[str, Value]] = []
    for name, (_, source, target) in SETS.items():
        both = two_way(models[f"{source}-{target}"], models[f"{target}-{source}"], threshold=FLOOR)
        rows.append(row_of(name, read_segments(data / "tags", name, both)))
    sign = signature({"model": [model.forward.recorder.name for model in models.values()]}, "markup")
    if packages:
        packages.mkdir(parents=True, exist_ok=True)
        for name in models:
            both = two_way(models[name], models["-".join(reversed(name.split("-")))], threshold=FLOOR)
            rows.append(handbook_row(packages, name, both))
        fast = load("en-de-fast", threshold=FLOOR, workers=1, scorer=None)
        rows += (messages_row(packages, name, fast) for name in CATALOGS)
    rows = [dict.fromkeys(column.key for column in COLUMNS) | row for row in rows]
    write_table(COLUMNS, rows, sign, output / "markup.tsv")
