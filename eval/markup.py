"""How many real segments get their tags and placeholders back, and what each rule contributes.

Segments are NAME.de and NAME.en in DATA/tags, one of them with tags, and NAME.ref, the other one as its authors tagged
it. Two bundled models align; a segment is correct if it equals the reference, values of href and folded spaces aside.
The rules were tuned on even lines; odd lines were counted several times meanwhile. Of the wrong even lines, the
last columns count those among the tenth whose least sure tag is least sure.

Messages and paragraphs come from Debian packages. Their tags are put into their own text with links from each word to
itself; one is correct if it comes out as it was, spaces next to tags aside. Each other row switches a rule off.

Paragraphs of a handbook in two languages have their translators' own tags; values of title and spaces next to tags are
not compared. The rules were tuned on 2,000 paragraphs of other handbooks (Debian's installation guide, reference, FAQ
and maintainers' guide).

Pages of a handbook are translated as a whole; counted are blocks that have the same tags and, if they had text, text.
"""

from __future__ import annotations

import gettext
import operator
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from common import write_table
from lxml import html

from align import Aligner, Pair, Search, load, two_way
from align.core.text import split_words
from align.evaluation.tables import Column, Value
from align.io.signature import signature
from align.transfer import markup, windows
from align.transfer.markup import place_markup
from align.transfer.pages import Page
from align.transfer.standins import translate_pages
from align.transfer.tags import BLOCK, Markup, parse, parse_placeholders, read_markup, readable
from align.transfer.windows import FLOOR

SETS = {"html": ("html", "de", "en"), "xl": ("xml", "de", "en"), "ph": ("placeholders", "en", "de")}
"""Set: kind of tags, language of the tagged side, language of the other."""

RULES: dict[str, tuple[Any, str, Any]] = {
    "words that are the same": (markup._Placing, "_find_in_equal_word", lambda *_: None),
    "content as it is": (markup._Placing, "_find_verbatim", lambda *_: None),
    "marks at edges, at the end": (markup, "trailing_beyond", lambda word, stop, last: 0),
    "marks at edges, at the beginning": (markup, "leading_beyond", lambda word, first: 0),
    "empty quotes and brackets": (markup._Placing, "_fill_empty_pairs", lambda *_: None),
    "prepositions": (markup, "BRIDGES", frozenset()),
    "word on the left": (markup, "NEIGHBOUR", 0.0),
    "lone marks": (markup._Placing, "_find_lone_mark", lambda *_: None),
    "order of equal contents": (markup._Placing, "_in_order", lambda *_: ()),
    "parts of similar words": (markup._Placing, "_find_in_similar_word", lambda *_: None),
    "parts of compounds": (markup._Placing, "_without_compound", lambda self, element, window: window),
    "partners of quotes": (markup._Placing, "_balanced", lambda self, element, window, region, taken: window),
    "weak scores": (windows, "WEAK", 0.0),
}
"""Rule: where it is, and what takes its place when it is switched off."""


class Segment(NamedTuple):
    """A segment, its scores, and how its authors tagged it."""

    markup: Markup
    target: str
    scores: dict[tuple[int, int], float]
    reference: str

    def judge(self, compared: Callable[[str], str]) -> tuple[bool, float]:
        """Tell whether all tags are placed as in the reference, and how sure the least sure one is.

        Args:
            compared: returns a segment without what is not compared.
        """
        placed = place_markup(self.markup, self.target, self.scores)
        return compared(placed.text) == compared(self.reference), placed.confidence


def fold(text: str) -> str:
    """Return a segment without what is not compared."""
    return " ".join(re.sub(r'href="[^"]*"', 'href=""', text).split())


def read_segments(folder: Path, name: str, aligner: Aligner) -> list[Segment]:
    """Read and align the segments of a set."""
    tags, *languages = SETS[name]
    files = (folder / f"{name}.{ending}" for ending in (*languages, "ref"))
    lines = [file.read_text(encoding="utf-8").split("\n")[:-1] for file in files]
    rows = [
        (read_markup(line, tags, target), target, reference) for line, target, reference in zip(*lines, strict=True)
    ]
    return align_segments(rows, aligner)


def align_segments(rows: Sequence[tuple[Markup, str, str]], aligner: Aligner) -> list[Segment]:
    """Align segments given as tagged sides, other sides, and references."""
    pairs = [
        Pair(tagged.readable(), readable(split_words(target), tagged.escaped), n)
        for n, (tagged, target, _) in enumerate(rows, 1)
    ]
    alignments = aligner(pairs)
    return [Segment(*row[:2], dict(one.scores), row[2]) for row, one in zip(rows, alignments, strict=True)]


PACKAGES = {
    "python3-django": "**/locale/{}/LC_MESSAGES/*.mo",
    "phpmyadmin": "**/locale/{}/LC_MESSAGES/*.mo",
    "wordpress-l10n": "**/languages/*{}*.mo",
    "debian-faq-de": "**/*.de.html",
    "debian-reference-de": "**/*.de.html",
    "developers-reference-de": "**/de/*.html",
    "installation-guide-amd64": "**/de/*.html",
}
"""Debian package: its messages, in several languages, or its pages."""

LANGUAGES = ("de", "fr", "es", "it", "nl", "cs", "pl", "ru", "ja", "zh_CN", "zh_Hans", "tr", "ar", "he")

_PARAGRAPH = re.compile(r"<(p|li|dt|dd|h[1-6]|td)\b[^>]*>(.*?)</\1>", re.DOTALL)
_BLOCK = re.compile(r"<(?:p|li|ul|ol|dl|dt|dd|table|pre|div|td|tr|h\d)\b")


def unpack(folder: Path, package: str) -> Path:
    """Return the folder with the content of a Debian package, which is downloaded if it is not there."""
    content = folder / package
    if not content.is_dir():
        if not any(folder.glob(f"{package}_*.deb")):
            subprocess.run(["apt-get", "-q", "download", package], cwd=folder, check=True)
        (archive,) = folder.glob(f"{package}_*.deb")
        subprocess.run(["dpkg-deb", "-x", archive, content], check=True)
    return content


def read_messages(folder: Path) -> Iterator[str]:
    """Yield the messages with placeholders, in one line each."""
    for package, pattern in PACKAGES.items():
        for language in LANGUAGES if pattern.endswith(".mo") else ():
            for path in sorted(unpack(folder, package).glob(pattern.format(language))):
                with path.open("rb") as stream:
                    catalog: dict[Any, Any] = gettext.GNUTranslations(stream)._catalog  # type: ignore[attr-defined]
                for key, message in catalog.items():
                    if key and isinstance(message, str) and len(parse_placeholders(message)) > 1:
                        yield " ".join(message.split())


def read_paragraphs(folder: Path) -> Iterator[str]:
    """Yield paragraphs, items, cells and headings of more than three words that have inline tags."""
    for package, pattern in PACKAGES.items():
        for path in sorted(unpack(folder, package).glob(pattern)) if pattern.endswith(".html") else ():
            for match in _PARAGRAPH.finditer(path.read_text(encoding="utf-8", errors="replace")):
                text = " ".join(match[2].split())
                if (
                    re.search("<[a-z]", text)
                    and not _BLOCK.search(text)
                    and len(re.sub("<[^>]*>", "", text).split()) > 3
                ):
                    yield text


def is_itself(text: str, tags: str) -> bool:
    """Tell whether a text gets its own tags back in the same places."""
    tokens = (token.text for token in parse(text, tags) if token.kind == "text")
    plain = re.sub(" +", " ", "".join(tokens))
    source = read_markup(text, tags, plain)
    placed = place_markup(source, plain, {(n, n): 1.0 for n in range(len(source.words))}).text
    if tags == "placeholders":
        return placed.split() == text.split()
    return _without_spaces(placed) == _without_spaces(text)


def _without_spaces(text: str) -> str:
    """Return a text without the spaces next to tags."""
    return re.sub(" *(<[^>]*>) *", r"\1", text).strip(" ")


def identity_rows(name: str, texts: Iterable[str], tags: str) -> Iterator[dict[str, Value]]:
    """Yield the rows of texts that are projected onto themselves: with all rules, and without each."""
    distinct = [*dict.fromkeys(texts)]
    for rule in ("", *RULES):
        with ExitStack() as stack:
            if rule:
                stack.enter_context(patch.object(*RULES[rule]))
            right = sum(is_itself(text, tags) for text in distinct)
        yield {"segments": name, "without": rule, "all": right, "of all": len(distinct)}


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


def handbook_rows(folder: Path, name: str, aligner: Aligner) -> Iterator[dict[str, Value]]:
    """Yield the rows of a handbook in one direction: with all rules, and without each."""
    rows = []
    for german, english in read_handbook(folder):
        tagged, reference = (german, english) if name == "de-en" else (english, german)
        target = " ".join(re.sub("<[^>]*>", "", reference).split())
        rows.append((read_markup(tagged, "html", target), target, reference))
    segments = align_segments(rows, aligner)
    for rule in ("", *RULES):
        with ExitStack() as stack:
            if rule:
                stack.enter_context(patch.object(*RULES[rule]))
            judged = [segment.judge(fold_spaces) for segment in segments]
        wrong = sum(not right for right, _ in judged)
        row: dict[str, Value] = {"segments": f"paragraphs of a handbook, {name}", "without": rule}
        row |= {"wrong": wrong, "wrong, least sure": wrong_of_tenth(judged)}
        yield row | {"all": len(judged) - wrong, "of all": len(judged)}


def fold_spaces(text: str) -> str:
    """Return a segment without spaces next to tags, titles, and what `fold` leaves out."""
    return re.sub('title="[^"]*"', "", _without_spaces(fold(text)))


def wrong_of_tenth(judged: Sequence[tuple[bool, float]]) -> int:
    """Return how many of the tenth of some segments whose least sure tag is least sure are wrong."""
    tenth = sorted(judged, key=operator.itemgetter(1))[: round(len(judged) / 10)]
    return sum(not right for right, _ in tenth)


PAGES = {
    ("de-en", "developers-reference-de", "de"): ("index", "l10n", "beyond-pkging", "resources", "new-maintainer"),
    ("en-de", "developers-reference", "developers-reference"): (
        "index",
        "l10n",
        "beyond-pkging",
        "resources",
        "new-maintainer",
    ),
}
"""Model, package and folder of pages: their names."""


class _Blocks(HTMLParser):
    """Reads the blocks of a page: block tag, inline tags, and whether there is text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.blocks: list[tuple[Any, Counter[str], list[bool]]] = [("", Counter(), [])]
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._add(tag, (tag, attrs))

    def handle_endtag(self, tag: str) -> None:
        self._add(tag, f"/{tag}")

    def _add(self, tag: str, shown: Any) -> None:
        if tag in BLOCK:
            self.blocks.append((shown, Counter(), []))
        else:
            self.blocks[-1][1][str(shown)] += 1

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.blocks[-1][2][:] = [True]


def page_rows(packages: Path, models: Mapping[str, Aligner]) -> Iterator[dict[str, Value]]:
    """Translate pages greedily, and count blocks in their places."""
    for (name, package, folder), names in PAGES.items():
        files = [path for part in names for path in unpack(packages, package).glob(f"usr/**/{folder}/{part}.html")]
        right = total = 0
        for path in files:
            original = path.read_text(encoding="utf-8")
            ((_, translation),) = translate_pages(models[name], [(path, Page(original, "html"))], Search(beam=1))
            before, after = (_Blocks(page).blocks for page in (original, translation.text))
            total += len(before)
            right += sum(map(operator.eq, before, after)) if len(before) == len(after) else 0
        yield {"segments": f"blocks of {len(files)} pages, {name}", "all": right, "of all": total}


def rows_of(name: str, segments: list[Segment]) -> Iterator[dict[str, Value]]:
    """Yield the rows of a set: with all rules, and without each."""
    for rule in ("", *RULES):
        row: dict[str, Value] = {"segments": name, "without": rule}
        with ExitStack() as stack:
            if rule:
                stack.enter_context(patch.object(*RULES[rule]))
            judged = [segment.judge(fold) for segment in segments]
        for lines, part in (("odd", judged[::2]), ("even", judged[1::2])):
            row |= {lines: sum(right for right, _ in part), f"of {lines}": len(part)}
        wrong = sum(not right for right, _ in judged[1::2])
        row |= {"wrong": wrong, "wrong, least sure": wrong_of_tenth(judged[1::2])}
        yield row


COLUMNS = [
    *(Column(key, key) for key in ("segments", "without", "odd", "of odd", "even", "of even")),
    *(Column(key, key) for key in ("wrong", "wrong, least sure", "all", "of all")),
]


def run(data: Path, packages: Path | None, output: Path) -> None:
    """Align, place, print, write."""
    models = {name: load(name, threshold=None, workers=1) for name in ("de-en", "en-de")}
    rows: list[dict[str, Value]] = []
    for name, (_, source, target) in SETS.items():
        both = two_way(models[f"{source}-{target}"], models[f"{target}-{source}"], threshold=FLOOR)
        rows += rows_of(name, read_segments(data / "tags", name, both))
    sign = signature({"model": [model.forward.recorder.name for model in models.values()]}, "markup")
    if packages:
        packages.mkdir(parents=True, exist_ok=True)
        rows += identity_rows("messages", read_messages(packages), "placeholders")
        rows += identity_rows("paragraphs", read_paragraphs(packages), "html")
        for name in models:
            both = two_way(models[name], models["-".join(reversed(name.split("-")))], threshold=FLOOR)
            rows += handbook_rows(packages, name, both)
        rows += page_rows(packages, models)
    rows = [dict.fromkeys(column.key for column in COLUMNS) | row for row in rows]
    write_table(COLUMNS, rows, sign, output / "markup.tsv")
