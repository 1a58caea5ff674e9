"""Read and write the messages of gettext PO files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from align.core.errors import DataError, show_value
from align.transfer.format_strings import frequent_forms, message_errors
from align.transfer.segments import Document, Segment, text_encoding
from align.transfer.tags import has_positional, numbered_as

_ESCAPE = re.compile(r"((?:\\(?:x[0-9A-Fa-f]{1,2}|[0-7]{1,3}))+)|\\(.)")
_BYTE = re.compile(r"\\(x?)([0-9A-Fa-f]+)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPED = {
    **{control: f"\\{control:03o}" for control in (*range(32), 127)},
    **{ord(character): f"\\{letter}" for letter, character in _ESCAPES.items()},
    **{34: '\\"', 92: "\\\\"},
}

_LINE = re.compile(r"[^\n]*\n?")
_KEYWORD = re.compile(r"(msgctxt|msgid_plural|msgid|msgstr)(?:\[([0-9]{1,3})\])?[ \t]*(?=\")")
_STRING = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"[ \t]*$')
_CHARSET = re.compile(rb"charset=([A-Za-z0-9_.:-]{1,40})")
_LANGUAGE = re.compile(r"^Language:[ \t]*(\S{1,40})", re.MULTILINE)
_ELEMENT = re.compile(r"</?[A-Za-z][^<>]*>")
_NUMBER = re.compile(r"%(?:\(\w{1,80}\)|[0-9]{1,3}\$)?l{0,2}[diu]|\{(?:n|count|num|number)\}")
"""Placeholders that a form for one thing may leave out."""

_LONG = re.compile(r'^(?=(?:msg|")[^\n]* )[^\r\n]{81}', re.MULTILINE)
"""A line that gettext's programs would have wrapped."""

WIDTH = 79
"""Columns of a wrapped line, as gettext's programs write it."""


def unescape(text: str, encoding: str = "utf-8") -> str:
    """Return the text of a string between quotes; numbers in it stand for bytes."""

    def character(match: re.Match[str]) -> str:
        if match[1]:
            return bytes(int(n, 16 if x else 8) & 255 for x, n in _BYTE.findall(match[1])).decode(encoding)
        return _ESCAPES.get(match[2], match[2])

    return _ESCAPE.sub(character, text)


def escape(text: str) -> str:
    """Return a text as it is written between quotes."""
    return text.translate(_ESCAPED)


@dataclass(slots=True)
class _Entry:
    """A message: its flags, texts by keyword, and where the translations are."""

    flags: set[str] = field(default_factory=set)
    line: int = 0
    texts: dict[str, list[str]] = field(default_factory=dict)
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)

    def text(self, key: str, encoding: str) -> str:
        return "".join(unescape(text, encoding) for text in self.texts.get(key, ()))


def _decode(data: bytes, file: str) -> tuple[str, str]:
    """Return the text of a file and its encoding."""
    head = data[: data.find(b"\n\n") if b"\n\n" in data[:20000] else 20000]
    declared = _CHARSET.search(head)
    encoding = declared[1].decode() if declared and declared[1] != b"CHARSET" else "utf-8"
    try:
        text = data.decode(text_encoding(encoding))
        same = text.encode(encoding) == data
    except LookupError:
        raise DataError(f"unknown encoding {show_value(encoding)}", file=file) from None
    except UnicodeError:
        same = False
    if not same:
        raise DataError(f"the file is not {encoding}, as it declares", file=file)
    return text, encoding


def read_catalog(data: bytes, file: str, tags: str | None) -> Document[str]:
    """Read a PO file.

    Obsolete and fuzzy messages and the header are left out.

    Args:
        tags: one of `align.transfer.tags.KINDS`; None for placeholders, and HTML in messages that have elements.

    Raises:
        DataError: the file is not valid; names the line.
    """
    text, encoding = _decode(data, file)
    entries = _read_entries(text, file)
    wrapped = not _LONG.search(text)
    ending = "\r\n" if "\r\n" in text[:10000] else "\n"
    segments: list[Segment] = []
    language = ""
    frequent: tuple[bool, ...] = ()
    for unit, entry in enumerate(entries):
        try:
            texts = {key: entry.text(key, encoding) for key in entry.texts}
        except UnicodeDecodeError:
            raise DataError(f"escapes of bytes that are not {encoding}", file=file, line=entry.line) from None
        if not unit and not texts["msgid"]:
            header = texts.get("msgstr", "")
            frequent = frequent_forms(header)
            language = match[1] if (match := _LANGUAGE.search(header)) else ""
        if "fuzzy" in entry.flags or not texts["msgid"]:
            continue
        forms = [key for key in entry.spans if key.startswith("msgstr")]
        for key in forms:
            for_one = key == "msgstr[0]" and len(forms) > 1 and not any(frequent[:1])
            plural = "msgid_plural" in entry.texts and not for_one
            source, target = texts["msgid_plural" if plural else "msgid"], texts[key] or None
            source, target, line_ends = _split_line_ends(source, target)
            if len(forms) > 1 and not plural and target and not _NUMBER.search(target):
                source = _without_number(source, target)
            kind = tags or ("html,placeholders" if _ELEMENT.search(source) else "placeholders")
            around, languages = (f"{key} ", ""), ("", language)
            place = entry.line, (unit, 0), entry.spans[key]
            segments.append(Segment(source, target, kind, *place, around, line_ends, languages))

    def write(segment: Segment, target: str) -> str:
        return segment.around[0] + ending.join(_wrap(target.join(segment.line_ends), len(segment.around[0]), wrapped))

    def check(forms: Sequence[Segment], targets: Sequence[str | None]) -> list[str]:
        entry = entries[forms[0].unit[0]]
        whole = ["" if text is None else text.join(form.line_ends) for form, text in zip(forms, targets, strict=True)]
        plural = entry.text("msgid_plural", encoding) if "msgid_plural" in entry.texts else None
        return message_errors(entry.text("msgid", encoding), plural, whole, entry.flags, frequent)

    def encode(content: str) -> bytes:
        try:
            return content.encode(encoding)
        except UnicodeEncodeError as error:
            character = show_value(content[error.start])
            raise DataError(f"{character} of a translation is not in {encoding}", file=file) from None

    return Document(segments, text, write, encode, check)


def _split_line_ends(source: str, target: str | None) -> tuple[str, str | None, tuple[str, str]]:
    """Split off the line ends that a source and its translation both begin with, and those that both end with.

    Returns:
        The source, the translation and the line ends; without a translation, those of the source.
    """
    texts = [source] if target is None else [source, target]
    end = min(len(text) - len(text.rstrip("\n")) for text in texts)
    texts = [text[: len(text) - end] for text in texts]
    start = min(len(text) - len(text.lstrip("\n")) for text in texts)
    texts = [text[start:] for text in texts]
    return texts[0], None if target is None else texts[1], ("\n" * start, "\n" * end)


def _without_number(source: str, target: str) -> str:
    """Return a singular source without the number that its translation lacks; other arguments keep their positions."""
    number = _NUMBER.search(source)
    is_before = number is not None and number[0][0] == "%" and has_positional(source[number.end() :])
    model = "%1$d" if is_before and not has_positional(target) else target
    return _NUMBER.sub("", numbered_as(source, model))


def _read_entries(text: str, file: str) -> list[_Entry]:
    """Return the messages of a file."""
    entries: list[_Entry] = []
    entry, key, at = _Entry(), "", 1 if text.startswith("\ufeff") else 0
    for number, match in enumerate(_LINE.finditer(text, at), 1):
        start, line = match.start(), match[0].rstrip("\r\n")
        content = line.lstrip(" \t")
        if content.startswith("#"):
            if entry.spans:
                entry, key = _Entry(), ""
            if content.startswith(("#,", "#=")):
                entry.flags.update(content[2:].replace(",", " ").split())
            continue
        if not content.strip():
            continue
        keyword = _KEYWORD.match(content)
        if keyword:
            key = keyword[1] + (f"[{keyword[2]}]" if keyword[2] else "")
            if keyword[1] in ("msgctxt", "msgid") and entry.spans:
                entry = _Entry()
            if key in entry.texts:
                raise DataError(f"a second {key} in a message", file=file, line=number)
            entry.texts[key] = []
            if key == "msgid":
                entry.line = number
                entries.append(entry)
            content = content[keyword.end() :]
        string = _STRING.match(content)
        if not string or not key:
            raise DataError(f"neither a keyword nor a string: {show_value(line)}", file=file, line=number)
        entry.texts[key].append(string[1])
        if key.startswith("msgstr"):
            begin = entry.spans[key][0] if key in entry.spans else start + len(line) - len(line.lstrip(" \t"))
            entry.spans[key] = begin, start + len(line)
    return entries


def _wrap(text: str, used: int, wrapped: bool) -> list[str]:
    """Return the strings of a translation, one for a line; the first follows the keyword."""
    parts = [escape(part) for part in re.findall(r"[^\n]*\n|[^\n]+", text)] or [""]
    if len(parts) == 1 and (not wrapped or used + len(parts[0]) + 2 <= WIDTH):
        return [f'"{parts[0]}"']
    rows = [""]
    for part in parts:
        row = ""
        for word in re.findall(r"[^ ]* *", part) if wrapped else [part]:
            if row and len(row) + len(word.rstrip(" ")) + 2 > WIDTH:
                rows.append(row)
                row = ""
            row += word
        rows += [row] if row else []
    return [f'"{row}"' for row in rows]
