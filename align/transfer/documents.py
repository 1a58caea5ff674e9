"""Read the segments of XLIFF, TMX and gettext PO files, and write their translations into the same text.

lxml tells what each element is, and the text where it is: everything but the translations stays byte for byte, which
lxml itself would write in another layout.
"""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from align.core.errors import DataError, shorten, show_value
from align.io.compression import DAMAGED, suffix_of
from align.io.reader import name_shown, open_lines, recognise_file, regular_file
from align.transfer.segments import Document, Segment, decode
from align.transfer.tags import XML_TAG

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

LARGEST = 256 << 20  # limit of a file's bytes; what is kept of it takes several times as much memory

KINDS_BY_ENDING = {
    **dict.fromkeys((".xlf", ".xliff", ".mxliff", ".mqxliff", ".sdlxliff"), "xliff"),
    ".tmx": "tmx",
    **dict.fromkeys((".po", ".pot"), "po"),
}
"""Kinds of documents by the ending of their names."""

READ = "extract-align transfer reads lines of UTF-8 text (also .gz, .xz, .zst) or, as FILE, HTML pages (.html, .htm, "
READ += f".xhtml) and XLIFF, TMX and PO files ({', '.join(KINDS_BY_ENDING)})"
_UNREAD = """strings.xml .json .json5 .arb .xcstrings .strings .stringsdict .plist .resx .resw .yaml .yml .properties
.ftl .srt .vtt .sbv .ass .ssa .sub .ttml .mo .qm .doc .docx .odt .rtf .pptx .odp .xlsx .ods .epub .idml .pdf"""
_TEXT = r'"(?:[^"\\\n]|\\.)*"'
_BEGINNINGS = {
    "JSON": rf"\[?\s*\{{\s*{_TEXT}\s*:(?:{_TEXT}|[][{{}}:,\d.eE+ \t\r-]|true|false|null)*(?:\n|\Z|{_TEXT[:-1]}\\?\Z)",
    "XML of another kind": r"<\?xml[^>]*>\s*(?=<)(?![\s\S]*<(?:\w+:)?(?:html|body|div|p)\b)"
    r"|<(?:resources|plist|TS|root)\b[^>]*>\s*<(?:[\w-]+\s+name=|dict|array|context|xsd:|/)",
    "a .strings file": rf"{_TEXT}\s*=\s*{_TEXT}\s*;\s*(?:{_TEXT}\s*=|\Z)",
    "a PO file": r'(?:#[^\n]*\n|\s)*(?:msgctxt "[^\n]*\n)?msgid "[^\n]*\n(?:\s*"[^\n]*\n)*msg(?:str|id_plural)\b',
    "subtitles": r"\[Script Info\]\s*\n|(?:WEBVTT[^\n]*\n(?:[^\n]*\n){0,9}?|\d+\s*\n)?[\d:]+:\d\d[,.]\d{3} +--> ",
}
"""Files that are not read, by the ends of their names or by how they begin, without comments."""
_COMMENT = re.compile(rf"({_TEXT})|<!--.*?(?:-->|\Z)|<!DOCTYPE[^>]*>|/\*.*?\*/", re.DOTALL)  # or a quotation

_ENCODING = re.compile(rb"""(?:\xef\xbb\xbf)?<\?xml[^>]*?\sencoding\s*=\s*["']([\w.:-]+)""", re.ASCII)
_FIRST_BYTES = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be", b"<\0": "utf-16-le", b"\0<": "utf-16-be"}
"""Encodings that a file shows without its declaration."""

Codes = tuple[str | None, str | None]
_LANG = "{http://www.w3.org/XML/1998/namespace}lang", "lang"


def is_document(file: str) -> bool:
    """Check whether the ending of a file's name is that of a document."""
    return PurePath(file).suffix.lower() in KINDS_BY_ENDING


def refuse_unread(names: list[str]) -> None:
    """Refuse files that are neither lines nor pages, by their names or by how they begin."""
    for name in names:
        head, named = b"", name.removesuffix(suffix_of(name)).lower()
        if regular_file(name) or (name == "-" and sys.stdin and not sys.stdin.isatty()):
            with suppress(*DAMAGED), open_lines(name) as stream:
                head = stream.peek(8192) if hasattr(stream, "peek") else getattr(stream, "getvalue", bytes)()
        text = _COMMENT.sub(r"\1", head[:8192].decode(errors="replace")).lstrip("\ufeff \t\r\n")
        kinds = [*(f"a {end} file" for end in _UNREAD.split() if named.endswith(end)), recognise_file(head)]
        if "|||" not in text.partition("\n")[0]:
            kinds += [kind for kind, begin in _BEGINNINGS.items() if re.match(begin, text)]
        if kind := next(filter(None, kinds), ""):
            raise DataError(f"the file is {kind}", file=name_shown(name), hint=READ)


def read_document(
    data: bytes, file: str, tags: str | None = None, languages: Codes = (None, None), fuzzy: bool = False
) -> Document:
    """Read the segments of a file, whose kind the ending of its name says.

    Args:
        tags: one of `align.transfer.tags.KINDS`; None for XML, or for placeholders and HTML in PO files.
        languages: of source and target, for TMX with more than two.
        fuzzy: whether fuzzy messages of PO are read, too.

    Raises:
        DataError: the file is not valid; names the line.
        ModuleNotFoundError: lxml or polib is not installed.
    """
    if len(data) > LARGEST:
        raise DataError(f"more than {LARGEST >> 20} MiB", file=file)
    try:
        if KINDS_BY_ENDING[PurePath(file).suffix.lower()] == "po":
            from align.transfer.catalogs import read_catalog

            return read_catalog(data, file, tags, fuzzy)
        xml = _Xml(data, file)
    except ModuleNotFoundError as error:
        message = f"documents need {error.name}: pip install '.[documents]'"
        raise ModuleNotFoundError(message, name=error.name) from None
    read = xml.read_units if xml.root.tag.endswith("xliff") else xml.read_variants
    segments = read(tags or "xml", languages)
    return Document(segments, xml.text, lambda text: text.encode(xml.encoding, "xmlcharrefreplace"))


class _Place(NamedTuple):
    """Offsets of an element, and those of what is between its tags; the latter are both its end if it has one tag."""

    start: int
    content: int
    content_end: int
    end: int


class _Xml:
    """An XML file, with the places of its elements."""

    def __init__(self, data: bytes, file: str) -> None:
        from lxml import etree

        declared = _ENCODING.match(data)
        self.encoding = _FIRST_BYTES.get(data[:2]) or (declared[1].decode() if declared else "utf-8")
        self.text, self._file = decode(data, self.encoding, file), file
        parser = etree.XMLParser(encoding="utf-8", resolve_entities=False, no_network=True, load_dtd=False)
        try:
            self.root = etree.fromstring(self.text.encode(), parser)
        except etree.XMLSyntaxError as error:
            message = (error.msg or "no element").rpartition(", line")[0] or error.msg
            raise DataError(f"not well-formed XML: {message}", file=file, line=max(error.lineno or 1, 1)) from None
        places = self._find_elements()
        name = etree.QName(self.root).localname
        if name not in ("xliff", "tmx"):
            raise DataError(f"an element {show_value(name)}, not xliff or tmx", file=file, line=1)
        texts = set(self.root.iter("{*}source", "{*}seg-source", "{*}target", "{*}seg", "{*}mrk"))
        placed = zip(self.root.iter("*"), places, strict=True)
        self._places = {element: place for element, place in placed if element in texts}

    def read_units(self, tags: str, _: object) -> list[Segment]:
        """Return the segments of XLIFF."""
        segments = []
        for number, unit in enumerate(self.root.iter("{*}trans-unit", "{*}segment")):
            file = next(unit.iterancestors("{*}file"), self.root)
            named = file.get("source-language", ""), file.get("target-language", "")
            languages = named if any(named) else (self.root.get("srcLang", ""), self.root.get("trgLang", ""))
            if _is_translated(unit):
                segments += self._read_unit(unit, number, tags, languages)
        return segments

    def read_variants(self, tags: str, languages: Codes) -> list[Segment]:
        """Return the segments of a translation memory, one of each unit that has both languages."""
        header = self.root.find("{*}header")
        main = languages[0] or _named_source(header)
        units: list[tuple[Element, dict[Element, str]]] = []
        for unit in self.root.iter("{*}tu"):
            variants = [(tuv.find("{*}seg"), tuv) for tuv in unit.iterchildren("{*}tuv")]
            names = {seg: tuv.get(_LANG[0]) or tuv.get(_LANG[1], "") for seg, tuv in variants if seg is not None}
            units.append((unit, names))
        known = dict.fromkeys(name for _, names in units for name in names.values())
        if not main and len(known) > 1 and not all(unit.get("srclang") for unit, _ in units):
            raise DataError("no source language", file=self._file, hint="‹source_lang›")
        others = [name for name in known if not _speaks(name, main)]
        if not languages[1] and len(others) > 1:
            listed = ", ".join(shorten(name, 40) for name in others[:8])
            message = f"translations in {len(others)} languages: {listed}"
            raise DataError(message, file=self._file, hint="‹target_lang›")
        segments = []
        for number, (unit, names) in enumerate(units):
            own = _named_source(unit) or main
            source = next((seg for seg, name in names.items() if _speaks(name, own)), None)
            targets = [s for s, name in names.items() if s is not source and _speaks(name, languages[1] or name)]
            if source is not None and targets and _is_translated(unit):
                pair = names[source], names[targets[0]]
                segments.append(self._segment(source, targets[0], source, (number, 0), tags, pair))
        return segments

    def _find_elements(self) -> list[_Place]:
        """Return the places of all elements, in the order of their start tags."""
        places: list[_Place] = []
        opened: list[int] = []
        for match in XML_TAG.finditer(self.text):
            start, end = match.span()
            if match["close"]:
                n = opened.pop()
                places[n] = places[n]._replace(content_end=start, end=end)
            elif match["open"]:
                if not match["empty"]:
                    opened.append(len(places))
                places.append(_Place(start, end, end, end))
            elif (match["type"] or "").endswith("["):
                line = self.text.count("\n", 0, start) + 1
                raise DataError("document types with declarations are not supported", file=self._file, line=line)
        return places

    def _content(self, element: Element) -> str:
        """Return the text between the tags of an element."""
        return self.text[self._places[element].content : self._places[element].content_end]

    def _slot(self, element: Element) -> tuple[tuple[int, int], tuple[str, str]]:
        """Return the part of the file to replace by another content of an element, and the tags to write around it."""
        start, content, content_end, end = self._places[element]
        if content != end:
            return (content, content_end), ("", "")
        tag = self.text[start:end]
        return (start, end), (tag[:-2].rstrip() + ">", f"</{tag[1:-2].split()[0]}>")

    def _segment(
        self, source: Element, target: Element, above: Element, unit: tuple[int, int], tags: str, names: tuple[str, str]
    ) -> Segment:
        """Return a segment whose translation has an element, which may be empty; `above` has the number of its line."""
        text = self._content(target)
        found = text if text.strip() else None
        return Segment(self._content(source), found, above.sourceline or 1, unit, *self._slot(target), tags, names)

    def _read_unit(self, unit: Element, number: int, tags: str, names: tuple[str, str]) -> list[Segment]:
        """Return the segments of a unit of XLIFF; several where its source is divided, as in XLIFF 1.2."""
        source, target, divided = (unit.find(f"{{*}}{name}") for name in ("source", "target", "seg-source"))
        if source is None:
            return []
        sources = {} if divided is None else self._divide(divided)
        if target is not None and (self._content(target).strip() or not sources):
            targets = self._divide(target)
            if not sources or not targets:
                return [self._segment(source, target, source, (number, 0), tags, names)]
            pairs = enumerate((part, targets[key]) for key, part in sources.items() if key in targets)
            segments = [self._segment(part, own, source, (number, k), tags, names) for k, (part, own) in pairs]
            return sorted(segments, key=lambda segment: segment.span)
        if target is not None:
            span, around = self._slot(target)
        else:  # a new element after the source, on a line of its own if that has one
            last = self._places[source if divided is None else divided]
            match = re.search(r"(\r\n|\n|\r)[ \t]*\Z", self.text[max(0, last.start - 400) : last.start])
            indentation = match[0] if match else ""
            name = f"{source.prefix}:target" if source.prefix else "target"
            span, around = (last.end, last.end), (f"{indentation}<{name}>", f"</{name}>")
        line, unit_number = source.sourceline or 1, (number, 0)
        if divided is None or not sources:
            return [Segment(self._content(source), None, line, unit_number, span, around, tags, names)]
        segments = []
        before, at = around[0], self._places[divided].content
        for part in sources.values():
            (start, end), own = self._slot(part)
            place = (span[0], span[0]), (before + self.text[at:start] + own[0], own[1])
            segments.append(Segment(self._content(part), None, line, unit_number, *place, tags, names))
            before, at = "", end
        after = segments[-1].around[1] + self.text[at : self._places[divided].content_end] + around[1]
        segments[-1] = replace(segments[-1], span=span, around=(segments[-1].around[0], after))
        return segments

    def _divide(self, element: Element) -> dict[str | None, Element]:
        """Return the elements `<mrk mtype="seg">` of a text by their numbers; none if a number occurs twice."""
        parts, end = [], 0
        for part in element.iter("{*}mrk"):
            if part.get("mtype") == "seg" and self._places[part].start >= end:  # not within another one
                parts.append(part)
                end = self._places[part].end
        by_number = {part.get("mid"): part for part in parts}
        return by_number if len(by_number) == len(parts) else {}


def _is_translated(unit: Element) -> bool:
    """Check whether a unit is to be translated: by the attribute of the innermost element that has it."""
    around = (unit, *unit.iterancestors())
    return next((element.get("translate") for element in around if "translate" in element.attrib), "yes") != "no"


def _named_source(element: Element | None) -> str:
    """Return the source language that a header or a unit names; "" for any."""
    name = "" if element is None else element.get("srclang", "")
    return "" if name.lower() == "*all*" else name


def _speaks(name: str, language: str) -> bool:
    """Check whether the name of a language is another's or that of one of its regions."""
    name, language = name.lower().replace("_", "-"), language.lower().replace("_", "-")
    return bool(language) and (language in (name, name.partition("-")[0]) or name == language.partition("-")[0])
