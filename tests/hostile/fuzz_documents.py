"""Random segments of XLIFF, TMX and PO files, filled by random links and read back with lxml and polib."""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple
from xml.sax.saxutils import quoteattr

from align.transfer.documents import read_document
from align.transfer.inline import Inline
from tests.hostile import driver
from tests.hostile.driver import Tried
from tests.hostile.fuzz_markup import expected_tags, tags_beside

WORDS = (
    *(
        "das",
        "Haus",
        "ist",
        "alt.",
        "(EU)",
        "„Ja“,",
        "z.B.",
        "3,5",
        "don't",
        "...",
        "»",
        "日本語。",
        "é",
        "a-b",
        "\xa0",
    ),
    *("&amp;", "R&amp;D,", "&lt;b&gt;", "&#228;rger"),
)
CODE = ("&lt;b&gt;", "{\\b", "%s", "&amp;nbsp;", "&lt;br class='x'/&gt;")
ENCODINGS = ("utf-8", "utf-16", "iso-8859-1")


class Style(NamedTuple):
    """Inline elements of a format: with text, without, and pairs of codes."""

    around: Sequence[str]
    points: Sequence[str]
    starts: Sequence[tuple[str, str]]


STYLES = {
    "xliff": Style(
        ['<g id="{n}" ctype="bold">|</g>', "<mrk mtype='term' mid='{n}'>|</mrk>"],
        ['<x id="{n}"/>', "<ph id='{n}' >{code}</ph>", '<it id="{n}" pos="open">{code}</it>', '<x id="{n}"></x>'],
        [
            ('<bpt id="{n}">{code}</bpt>', '<ept id="{n}">{code}</ept>'),
            ('<bx id="{n}"/>', '<ex id="{n}e" rid="{n}"/>'),
            ('<bpt id="{n}" rid="r{n}">{code}<sub>x</sub></bpt>', '<ept id="{n}e" rid="r{n}"/>'),
        ],
    ),
    "xliff2": Style(
        ['<pc id="{n}" dataRefStart="d1">|</pc>', '<mrk id="{n}" type="term">|</mrk>'],
        ['<ph id="{n}"/>', '<ph id="{n}" equiv="a &gt; b"/>'],
        [('<sc id="{n}"/>', '<ec startRef="{n}"/>')],
    ),
    "tmx": Style(
        ['<hi x="{n}">|</hi>'],
        ['<ph x="{n}">{code}</ph>', '<it x="{n}" pos="begin">{code}</it>'],
        [('<bpt i="{n}" x="{n}">{code}</bpt>', '<ept i="{n}">{code}</ept>')],
    ),
}
NAMES = ".xlf", ".xlf", ".tmx"
ENDINGS = dict(zip(STYLES, NAMES, strict=True))

HEADS = {
    "xliff": '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file original="a" '
    'source-language="de" target-language="en" datatype="x"><body>',
    "xliff2": '<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="de"><file id="f">',
    "tmx": '<tmx version="1.4"><header srclang="de"/><body>',
}
TAILS = {"xliff": "</body></file></xliff>", "xliff2": "</file></xliff>", "tmx": "</body></tmx>"}
UNITS = {
    "xliff": ("<trans-unit id='{n}'>\n  <source>", "</source>\n  <target state='new'>", "</target></trans-unit>"),
    "xliff2": ('<unit id="u{n}"><segment>\n  <source>', "</source>\n  <target>", "</target></segment></unit>"),
    "tmx": ('<tu><tuv xml:lang="de"><seg>', '</seg></tuv><tuv xml:lang="en"><seg>', "</seg></tuv></tu>"),
}


def _words(rng: random.Random) -> str:
    return "".join(rng.choice(WORDS) + rng.choice((" ", " ", "  ", "\n   ")) for _ in range(rng.randrange(1, 8)))


def tagged(rng: random.Random, style: Style) -> tuple[str, str]:
    """A source text, and its tags alone of which some are left out, in words that belong to the translation."""
    number = 0

    def fill(text: str) -> str:
        return text.format(n=number, code=rng.choice(CODE))

    def content(depth: int, keep: bool) -> tuple[str, str]:
        nonlocal number
        source, target = "", ""
        for _ in range(rng.randrange(1, 5)):
            number += 1
            kind = rng.random()
            kept = keep and rng.random() < 0.6
            if kind < 0.5 or depth > 4:
                source += _words(rng)
                target += _words(rng)
            elif kind < 0.65:
                tag = fill(rng.choice(style.points))
                source, target = source + tag, target + tag * kept
            else:
                start, end = fill(rng.choice(style.around)).split("|")
                inner = content(depth + 1, keep)
                source += start + inner[0] + end
                target += (start + inner[1] + end) if kept else inner[1]
            source += rng.choice(("", " "))
        return source, target

    source, target = content(0, rng.random() < 0.5)
    for _ in range(rng.choice((0, 0, 1, 2, 3))):  # pairs of codes, which overlap anything
        number += 1
        start, end = map(fill, rng.choice(style.starts))
        bounds = [
            match.start() for match in re.finditer(r"(?<=[ >])(?=[\w(„])", source) if _in_text(source, match.start())
        ]
        if bounds:
            a, b = sorted(rng.choices(bounds, k=2))
            source = source[:a] + start + source[a:b] + end + source[b:]
    return source, target


def _in_text(source: str, at: int) -> bool:
    """Whether an offset is in text that is not code."""
    before = source[:at]
    code = [
        len(re.findall(rf"<{name}\b[^>]*[^/]>", before)) - before.count(f"</{name}>")
        for name in ("bpt", "ept", "ph", "it", "x")
    ]
    return before.rfind("<") <= before.rfind(">") and not any(code)


NEW = "the old house is here."
"""Translation of segments without one."""


def _fill(rng: random.Random, source: str, target: str, tags: str) -> str:
    """Place tags by random links."""
    inline = Inline(source, target, tags)
    pairs = list(product(range(len(inline.source_words)), range(len(inline.target_words))))
    scores = {pair: rng.random() for pair in rng.sample(pairs, min(len(pairs), rng.randrange(30)))}
    return inline.place(scores)[0]


def structure(text: str) -> tuple[Counter[tuple[str, str]], dict[tuple[str, str], frozenset[Any]], list[str], bool]:
    """How often each element comes, what it is in, the words without codes, and whether pairs are in order."""
    from lxml import etree

    root = etree.fromstring(f"<seg>{text}</seg>")
    counts: Counter[tuple[str, str]] = Counter()
    around, parts, order = {}, [], []

    def identify(element: Any) -> tuple[str, str]:
        names = ("id", "mid", "x", "i", "startRef")
        return element.tag, next(element.get(name) for name in names if element.get(name))

    def walk(element: Any, above: tuple[tuple[str, str], ...]) -> None:
        parts.append(element.text or "")
        for child in element:
            key = identify(child)
            counts[key] += 1
            around[key] = frozenset(above)
            order.append(key)
            if child.tag in ("g", "mrk", "pc", "hi"):
                walk(child, (*above, key))
            else:
                around[key] |= {etree.tostring(child, with_tail=False)}
            parts.append(child.tail or "")

    walk(root, ())
    places = {key: n for n, key in enumerate(order)}
    pairs = [(("bpt", n), ("ept", n)) for tag, n in order if tag == "bpt"]
    pairs += [(("bpt", n), ("ept", f"{n}e")) for tag, n in order if tag == "bpt"]
    pairs += [(("bx", n), ("ex", f"{n}e")) for tag, n in order if tag == "bx"]
    pairs += [(("sc", n), ("ec", n)) for tag, n in order if tag == "sc"]
    right = all(places[a] < places[b] for a, b in pairs if b in places)
    return counts, around, re.findall(r"[^ \t\n]+", "".join(parts)), right


def _halves(key: tuple[str, str]) -> list[tuple[str, str]]:
    """What may be the other half of a pair of codes."""
    name, number = key
    other = {"bpt": "ept", "ept": "bpt", "bx": "ex", "ex": "bx", "sc": "ec", "ec": "sc"}.get(name)
    return [(other, n) for n in (number, f"{number}e", number.removesuffix("e"))] if other else []


def _problem(source: str, target: str, result: str) -> str:
    before, given, after = structure(source), structure(target), structure(result)
    if before[0] != after[0]:
        return "other tags"
    plain = not given[0]
    for key, around in before[1].items():
        pair = [before[1][other] for other in _halves(key) if other in before[1]]
        if pair:
            common = frozenset.intersection(around, *pair)
            if not {element for element in common if isinstance(element, tuple)} <= after[1][key]:
                return f"other nesting of {key}"
        elif (around != after[1][key]) if plain else not around <= after[1][key]:
            return f"other nesting of {key}"
    if not after[3]:
        return "the end before the start"
    if "".join(given[2]) != "".join(after[2]) and target:
        return "other text"
    return ""


def xml_case(kind: str) -> Callable[[random.Random], Tried]:
    """A file of this kind with a few segments."""
    style, (start, middle, end) = STYLES[kind], UNITS[kind]

    def attempt(rng: random.Random) -> Tried:
        texts = [tagged(rng, style) for _ in range(5)]
        encoding = rng.choice(ENCODINGS)

        def build(targets: Sequence[str]) -> bytes:
            units = (
                start.format(n=n) + source + middle + target + end
                for n, ((source, _), target) in enumerate(zip(texts, targets, strict=True))
            )
            text = f"<?xml version='1.0' encoding={quoteattr(encoding)}?>\n{HEADS[kind]}" + "\n<!-- x -->".join(units)
            return (text + TAILS[kind]).encode(encoding, "xmlcharrefreplace")

        targets = [rng.choice((target, target, "")) for _, target in texts]
        data = build(targets)
        try:
            document = read_document(data, f"a{ENDINGS[kind]}")
            if document.fill([None] * 5) != data:
                return Tried(kind, "the same file is another")
            results = [_fill(rng, segment.source, segment.target or NEW, "xml") for segment in document.segments]
            filled = document.fill(results)
            if filled != build(results):
                return Tried(kind, f"other bytes: {data!r}")
            again = read_document(filled, f"a{ENDINGS[kind]}")
            for old, new in zip(document.segments, again.segments, strict=True):
                wrong = _problem(old.source, old.target or "", new.target or "")
                if wrong:
                    return Tried(kind, f"{wrong}: {old.source!r} ||| {old.target!r} => {new.target!r}")
                if Inline(new.source, new.target or "", "xml").missing:
                    return Tried(kind, f"incomplete: {new.target!r}")
        except Exception as error:
            return Tried(kind, f"{type(error).__name__}: {error}: {data!r}")
        return Tried(kind)

    return attempt


PLACEHOLDERS = ("%s", "{0}", "%(name)s", "{name}", "%1$d", "<b>", "<br/>", "\\n", '\\"', "\\t", "\\\\")


def try_catalog(rng: random.Random) -> Tried:
    """A PO file with a few messages."""
    import polib

    def text(*, some: bool) -> str:
        parts = []
        for _ in range(rng.randrange(1, 12)):
            word = rng.choice(("datei", "the", "file,", "ärger", "100", "(x)"))
            parts.append(rng.choice(PLACEHOLDERS) if some and rng.random() < 0.3 else word)
        return " ".join(part if part != "<b>" else "<b>x</b>" for part in parts)

    lines = ["# c", 'msgid ""', 'msgstr ""', '"Content-Type: text/plain; charset=UTF-8\\n"', ""]
    for n in range(5):
        lines += rng.sample(["# translator", "#. extracted", "#: a.c:3", "#, c-format", "#, fuzzy"], rng.randrange(3))
        lines += [f'msgctxt "{n}"', f'msgid "{text(some=True)}"']
        if rng.random() < 0.3:
            lines += [f'msgid_plural "{text(some=True)}"']
            lines += [f'msgstr[{k}] "{text(some=k > 0)}"' for k in range(2)]
        else:
            lines += rng.choice(
                (['msgstr ""', f'"{text(some=False)} "', f'"{text(some=True)}"'], [f'msgstr "{text(some=False)}"'])
            )
        lines += ["", f'#~ msgid "old {n}"', '#~ msgstr "alt %s"', ""]
    data = rng.choice(("\n", "\r\n")).join(lines).encode()
    try:
        document = read_document(data, "a.po")
        if document.fill([None] * len(document.segments)) != data:
            return Tried("po", "the same file is another")
        results = [_fill(rng, s.source, s.target, s.tags) if s.target else None for s in document.segments]
        filled = document.fill(results)
        again = read_document(filled, "a.po")
        for old, new, result in zip(document.segments, again.segments, results, strict=True):
            if result is not None and (new.target or "").join(new.line_ends) != result.join(old.line_ends):
                return Tried("po", f"other translation: {result!r}, {new.target!r}")
            if old.target and (wrong := _other(old.source, old.target, new.target or "", old.tags)):
                return Tried("po", f"{wrong}: {old.source!r} ||| {old.target!r} => {new.target!r}")
        outside = [_without(file.decode()) for file in (data, filled)]
        if outside[0] != outside[1]:
            return Tried("po", f"other bytes: {data!r}")
        ours = [s.target.join(s.line_ends) if s.target else "" for s in again.segments if "\r" not in s.source]
        theirs = [
            pair
            for entry in polib.pofile(filled.decode())
            if not entry.obsolete and "fuzzy" not in entry.flags
            for pair in (
                [(None, entry.msgstr_plural[k]) for k in sorted(entry.msgstr_plural)] or [(entry.msgid, entry.msgstr)]
            )
        ]
        if ours != [target for _, target in theirs]:
            return Tried("po", f"polib reads another: {data!r}")
    except Exception as error:
        return Tried("po", f"{type(error).__name__}: {error}: {data!r}")
    return Tried("po")


_TAG = re.compile(r"<br/>|</?b>|%\(name\)s|%1\$[ds]|%s|\{0\}|\{name\}")


def _other(source: str, target: str, result: str, tags: str) -> str:
    if expected_tags(source, target, tags) != tags_beside(source, result, tags):
        return "other tags"
    if _TAG.sub("", target).split() != _TAG.sub("", result).split() and "".join(
        _TAG.sub("", target).split()
    ) != "".join(_TAG.sub("", result).split()):
        return "other text"
    return ""


def _without(text: str) -> str:
    """The file without its translations."""
    return re.sub(r'(?m)^(msgstr(?:\[\d\])?) "(?:[^"\\\r\n]|\\.)*"(?:\r?\n"(?:[^"\\\r\n]|\\.)*")*', r"\1", text)


CASES = {**{kind: xml_case(kind) for kind in STYLES}, "po": try_catalog}


def try_any(rng: random.Random) -> Tried:
    """A file of any kind."""
    return CASES[rng.choice(tuple(CASES))](rng)


if __name__ == "__main__":
    sys.exit(driver.main("documents", try_any, 8_000))
