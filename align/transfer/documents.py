"""Read the segments of XLIFF, TMX and gettext PO files, and write their translations into the same bytes.

Expat tells the offset of each element, so that everything but the translations stays byte for byte; libraries that
read such files into objects, such as lxml and translate-toolkit, write them again in their own layout. They read the
results back in the tests.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import PurePath
from typing import Any, NamedTuple
from xml.parsers import expat

from align.core.errors import DataError, shorten, show_value
from align.transfer.catalogs import read_catalog
from align.transfer.segments import Document, Segment, text_encoding
from align.transfer.tags import halves, parse

LARGEST = 256 << 20
"""Limit of a file's bytes; what is kept of it takes several times as much memory."""

DEEPEST = 256
"""Limit of elements within each other."""

_SKIPPED = ("alt-trans", "matches", "ignorable", "note", "notes", "header", "glossary", "originalData")
"""Elements of XLIFF whose sources and targets are not those of a unit."""

_LANGUAGE = ("xml:lang", "lang")

_FILE_LANGUAGES = {"xliff": ("srcLang", "trgLang"), "file": ("source-language", "target-language")}
"""Attributes with the languages of XLIFF's files, by the element that has them in version 2 and version 1."""

_FIRST_BYTES = {
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
    b"<\0": "utf-16-le",
    b"\0<": "utf-16-be",
}
"""Encodings that a file shows without its declaration."""


@dataclass(slots=True)
class _Part:
    """Text in a file: its bytes, and those of its element.

    Attributes:
        tag: bytes of the element's start tag.
        content: bytes between the tags; the same as those of the element if it has one tag.
    """

    name: str
    line: int
    language: str = ""
    tag: tuple[int, int] = (0, 0)
    content: tuple[int, int] = (0, 0)
    end: int = 0

    @property
    def empty(self) -> bool:
        """Whether it is one tag."""
        return self.content == self.tag


@dataclass(slots=True)
class _Unit:
    """A unit of translation with its parts.

    Attributes:
        language: of the source, in a translation memory.
    """

    translate: bool
    language: str = ""
    languages: tuple[str, str] = ("", "")
    parts: list[_Part] = field(default_factory=list)


class _Reader:
    """Finds the units of an XML file."""

    def __init__(self, data: bytes, file: str) -> None:
        self._data, self._file = data, file
        self.units: list[_Unit] = []
        self.root = self.language = ""
        self._translate = [True]
        self._depth = self._skipped = 0
        self._unit: _Unit | None = None
        self._part: _Part | None = None
        self._inner = 0
        self._variant = ""
        self._languages = self._of_all = "", ""  # of the file in XLIFF, and of all files
        self._after: list[Callable[[int], None]] = []
        self.encoding = _FIRST_BYTES.get(data[:2], "utf-8")
        self._parser = parser = expat.ParserCreate()
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.XmlDeclHandler, parser.StartDoctypeDeclHandler = self._declare, self._refuse
        parser.CharacterDataHandler = parser.CommentHandler = parser.SkippedEntityHandler = self._pass
        parser.ProcessingInstructionHandler = parser.StartCdataSectionHandler = self._pass
        parser.EndCdataSectionHandler = self._pass

    def read(self) -> None:
        """Read the file."""
        try:
            self._parser.Parse(self._data, True)
        except DataError:
            raise
        except expat.ExpatError as error:
            raise self._error(f"not well-formed XML: {expat.ErrorString(error.code)}") from None
        except (LookupError, ValueError):
            raise self._error("an encoding that is not read") from None

    def text(self, span: tuple[int, int]) -> str:
        """Return a part of the file."""
        return self._data[slice(*span)].decode(self.encoding, "replace")

    def content(self, part: _Part) -> str:
        """Return the text between the tags of an element."""
        return "" if part.empty else self.text(part.content)

    def encode(self, text: str) -> bytes:
        """Return text as the file has it; entities for characters that its encoding lacks."""
        return text.encode(self.encoding, "xmlcharrefreplace")

    def _error(self, message: str) -> DataError:
        return DataError(message, file=self._file, line=self._parser.CurrentLineNumber)

    def _declare(self, version: str, encoding: str | None, standalone: int) -> None:
        if encoding and not self.encoding.startswith("utf-16"):
            try:
                self.encoding = text_encoding(encoding)
            except LookupError:
                raise self._error(f"unknown encoding {show_value(encoding)}") from None
            if self._data.startswith(codecs.BOM_UTF8) and self.encoding != "utf-8":
                raise self._error(f"it declares {show_value(encoding)}, and begins as UTF-8")

    def _refuse(self, name: str, system: str | None, public: str | None, declares: int) -> None:
        if declares:
            raise self._error("a document type with declarations, which are not read")

    def _pass(self, *_: Any) -> None:
        if self._after:
            at = self._parser.CurrentByteIndex
            for call in self._after:
                call(at)
            self._after.clear()

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._pass()
        at, local = self._parser.CurrentByteIndex, name.rpartition(":")[2]
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._error(f"more than {DEEPEST} elements within each other")
        if self._depth == 1:
            self.root = local
        if self._part is not None:
            self._inner += 1
            return
        if self._skipped or (self.root == "xliff" and local in _SKIPPED):
            self._skipped += 1
            return
        translate = attributes["translate"] != "no" if "translate" in attributes else self._translate[-1]
        self._translate.append(translate)
        if self.root == "xliff" and local in _FILE_LANGUAGES:
            source, target = (attributes.get(name, "") for name in _FILE_LANGUAGES[local])
            self._languages = (source, target) if source or target else self._of_all
            if local == "xliff":
                self._of_all = self._languages
        if local == "header" and "srclang" in attributes:
            self.language = attributes["srclang"]
        if local in ("trans-unit", "segment", "tu"):
            self._unit = _Unit(translate, attributes.get("srclang", ""), self._languages)
            self.units.append(self._unit)
        elif local == "tuv":
            self._variant = next((attributes[key] for key in _LANGUAGE if key in attributes), "")
        elif self._unit and local in ("source", "seg-source", "target", "seg"):
            self._part = part = _Part(name, self._parser.CurrentLineNumber, self._variant)
            self._unit.parts.append(part)
            self._inner = 0
            part.tag = at, at

            def end_tag(end: int) -> None:
                part.tag, part.content = (at, end), (end, end)

            self._after.append(end_tag)

    def _end(self, name: str) -> None:
        at = self._parser.CurrentByteIndex
        self._depth -= 1
        if self._part is not None and not self._inner:
            part = self._part
            self._part = None
            self._translate.pop()
            self._pass()
            if self.text(part.tag).endswith("/>"):
                part.content, part.end = part.tag, at
            else:
                part.content = part.content[0], at
                self._after.append(lambda end: setattr(part, "end", end))
            return
        self._pass()
        if self._part is not None:
            self._inner -= 1
        elif self._skipped:
            self._skipped -= 1
        else:
            self._translate.pop()
            if name.rpartition(":")[2] in ("trans-unit", "segment", "tu"):
                self._unit = None


def read_document(
    data: bytes, file: str, tags: str | None = None, languages: tuple[str | None, str | None] = (None, None)
) -> Document[bytes] | Document[str]:
    """Read the segments of a file, whose kind the ending of its name says.

    Args:
        tags: one of `align.transfer.tags.KINDS`; None for XML, or for placeholders and HTML in PO files.
        languages: of source and target, for TMX with more than two.
    """
    if len(data) > LARGEST:
        raise DataError(f"more than {LARGEST >> 20} MiB", file=file)
    if KINDS_BY_ENDING[PurePath(file).suffix.lower()] == "po":
        return read_catalog(data, file, tags)
    reader = _Reader(data, file)
    reader.read()
    if reader.root not in ("xliff", "tmx"):
        raise DataError(f"an element {show_value(reader.root)}, not xliff or tmx", file=file, line=1)

    def write(segment: Segment, target: str) -> bytes:
        return reader.encode(target.join(segment.around))

    segments: list[Segment] = []
    sides = _choose_languages(reader, languages, file) if reader.root == "tmx" else None
    for number, unit in enumerate(reader.units):
        if unit.translate:
            rows = _read_variants(reader, unit, number, sides) if sides else _read_unit(reader, unit, number)
            segments += (
                Segment(row.source, row.target, tags or "xml", *row[2:], languages=unit.languages)
                for row in sorted(rows, key=lambda row: row.span)
            )
    return Document(segments, data, write, bytes)


class _Row(NamedTuple):
    """A segment without its kind of tags."""

    source: str
    target: str | None
    line: int
    unit: tuple[int, int]
    span: tuple[int, int]
    around: tuple[str, str] = ("", "")


KINDS_BY_ENDING = {
    ".xlf": "xliff",
    ".xliff": "xliff",
    ".mxliff": "xliff",
    ".mqxliff": "xliff",
    ".sdlxliff": "xliff",
    ".tmx": "tmx",
    ".po": "po",
    ".pot": "po",
}
"""Kinds of documents by the ending of their names."""


def is_document(file: str) -> bool:
    """Check whether the ending of a file's name is that of a document."""
    return PurePath(file).suffix.lower() in KINDS_BY_ENDING


def _choose_languages(reader: _Reader, languages: tuple[str | None, str | None], file: str) -> tuple[str, str]:
    """Return the languages of a translation memory; "" for any."""
    names = dict.fromkeys(part.language for unit in reader.units for part in unit.parts)
    source, target = languages
    main = source or (reader.language if reader.language.lower() != "*all*" else "")
    if not main and len(names) > 1 and not all(unit.language for unit in reader.units):
        raise DataError("no source language", file=file, hint="‹source_lang›")
    targets = [name for name in names if not _speaks(name, main)]
    if not target and len(targets) > 1:
        listed = ", ".join(shorten(name, 40) for name in targets[:8])
        raise DataError(f"translations in {len(targets)} languages: {listed}", file=file, hint="‹target_lang›")
    return main, target or ""


def _speaks(name: str, language: str) -> bool:
    """Check whether the name of a language is another's or that of one of its regions."""
    name, language = name.lower().replace("_", "-"), language.lower().replace("_", "-")
    return bool(language) and (
        name == language or name.partition("-")[0] == language or name == language.partition("-")[0]
    )


def _read_variants(reader: _Reader, unit: _Unit, number: int, sides: tuple[str, str]) -> list[_Row]:
    """Return the segment of a unit of a translation memory, if it has both languages."""
    main = unit.language if unit.language.lower() not in ("", "*all*") else sides[0]
    source = next((part for part in unit.parts if _speaks(part.language, main)), None)
    targets = [part for part in unit.parts if part is not source and _speaks(part.language, sides[1] or part.language)]
    if source is None or not targets:
        return []
    unit.languages = source.language, targets[0].language
    return [_whole(reader, source, targets[0], number)]


def _whole(reader: _Reader, source: _Part, target: _Part, number: int) -> _Row:
    """Return a segment whose translation has an element, which may be empty."""
    text = reader.content(target)
    span, around = target.content, ("", "")
    if target.empty:
        around = _open_tag(reader.text(target.tag), target.name)
    return _Row(reader.content(source), text if text.strip() else None, source.line, (number, 0), span, around)


def _open_tag(tag: str, name: str) -> tuple[str, str]:
    """Return the start tag for one of an empty element, and its end tag."""
    return tag.rstrip()[:-2].rstrip() + ">", f"</{name}>"


def _read_unit(reader: _Reader, unit: _Unit, number: int) -> list[_Row]:
    """Return the segments of a unit of XLIFF."""
    parts = {part.name.rpartition(":")[2]: part for part in reversed(unit.parts)}
    source, target, divided = parts.get("source"), parts.get("target"), parts.get("seg-source")
    if source is None:
        return []
    sources = _divide(reader, divided) if divided else []
    if target and reader.content(target).strip():
        pieces = _divide(reader, target)
        targets = {piece.key: piece for piece in pieces}
        unique = len(targets) == len(pieces) and len({piece.key for piece in sources}) == len(sources)
        if not sources or not targets or not unique:
            return [_whole(reader, source, target, number)]
        return [
            _Row(
                piece.text,
                match.text if match.text.strip() else None,
                source.line,
                (number, k),
                match.span,
                match.around,
            )
            for k, piece in enumerate(sources)
            if (match := targets.get(piece.key))
        ]
    if target:
        row = _whole(reader, source, target, number)
    else:
        last = divided or source
        name = f"{source.name.rpartition(':')[0]}:target".lstrip(":")
        around = f"{_indentation(reader, last)}<{name}>", f"</{name}>"
        row = _Row(reader.content(source), None, source.line, (number, 0), (last.end, last.end), around)
    if not sources or not divided:
        return [row]
    rows, at = [], divided.content[0]
    for piece in sources:
        before = reader.text((at, piece.span[0])) + piece.around[0]
        at = piece.span[1]
        rows.append(row._replace(source=piece.text, span=(row.span[0],) * 2, around=(before, piece.around[1])))
    rows[0] = rows[0]._replace(around=(row.around[0] + rows[0].around[0], rows[0].around[1]))
    after = rows[-1].around[1] + reader.text((at, divided.content[1])) + row.around[1]
    rows[-1] = rows[-1]._replace(span=row.span, around=(rows[-1].around[0], after))
    return rows


class _Piece(NamedTuple):
    """A segment within a source or target of XLIFF 1.2; `around` are its tags if it has only one."""

    key: str
    text: str
    span: tuple[int, int]
    around: tuple[str, str] = ("", "")


_SEGMENT = re.compile(r"""\smtype\s*=\s*["']seg["']""")


def _divide(reader: _Reader, part: _Part) -> list[_Piece]:
    """Return the elements `<mrk mtype="seg">` of a text."""
    text = reader.content(part)
    if "mrk" not in text:
        return []
    tokens = parse(text, "xml")
    offsets = [*accumulate((len(reader.encode(token.text)) for token in tokens), initial=part.content[0])]
    pieces, last = [], -1
    pairs = halves(tokens)
    for n, token in enumerate(tokens):
        if n <= last or token.name.rpartition(":")[2] != "mrk" or not _SEGMENT.search(token.text):
            continue
        if n in pairs:
            last = pairs[n]
            content = "".join(token.text for token in tokens[n + 1 : last])
            pieces.append(_Piece(token.key, content, (offsets[n + 1], offsets[last])))
        elif token.kind == "point":
            span = offsets[n], offsets[n + 1]
            pieces.append(_Piece(token.key, "", span, _open_tag(token.text, token.name)))
    return pieces


def _indentation(reader: _Reader, part: _Part) -> str:
    """Return the line end and the spaces before an element; "" if it does not begin its line."""
    start = part.tag[0]
    match = re.search(r"(\r\n|\n|\r)[ \t]*$", reader.text((max(0, start - 400), start)))
    return match[0] if match else ""
