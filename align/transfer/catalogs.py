"""Read and write the messages of gettext PO files.

polib reads them. It would wrap all of them again, so only the lines of changed translations are replaced in the file.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

import polib

from align.core.errors import DataError, plural, show_value
from align.transfer.format_strings import frequent_forms, message_errors
from align.transfer.segments import Document, Segment, decode
from align.transfer.tags import has_positional, numbered_as

_CHARSET = re.compile(rb"charset= *([A-Za-z0-9_.:-]{1,40})")
_COMMENT = re.compile(r"^[ \t]*#([,=]?)(.*)", re.MULTILINE)
_OBSOLETE_FLAGS = re.compile(r"^[ \t]*#,[^\n]*(?=\n(?:[ \t]*#(?!~)[^\n]*\n){0,50}[ \t]*#~)", re.MULTILINE)
_KEYWORD = re.compile(
    r'^[ \t\ufeff]*(?:(msgid)(?!_)|(?P<string>(msgstr(?:\[(\d)\])?)[^\r\n]*(?:\s*\n[ \t]*"[^\r\n]*)*))', re.MULTILINE
)
_UNENDED = re.compile(r'^[ \t]*(?:msg[^"#\r\n]*)?"(?:[^\r\n]*[^"\s])?[ \t\r]*$', re.MULTILINE)
_HALF_OBSOLETE = re.compile(r'^[ \t]*#~[^\n]*\n[ \t]*(?=msgid_plural|msgstr|")', re.MULTILINE)
"""A line of a message that has begun as an obsolete one."""

_OTHER_ESCAPE = re.compile(r'(?<!\\)(?:\\\\)*\\[^\\ntrvbf"]')
"""Escapes that polib does not read: numbers of bytes, and rare control characters."""

_ELEMENT = re.compile(r"</?(?!PRI\w{2,12}>)[A-Za-z][^<>]*>|</[0-9]{1,9}\s*>|<[0-9]{1,9}\s*/>")  # not %<PRIu64>
_NUMBER = re.compile(r"%(?:\(\w{1,80}\)|[0-9]{1,3}\$)?l{0,2}[diu]|\{(?:n|count|num|number)\}")
"""Placeholders that a form for one thing may leave out."""

_LONG = re.compile(r'^(?=(?:msg|")[^\n]* )[^\r\n]{81}', re.MULTILINE)
"""A line that gettext's programs would have wrapped."""

WIDTH = 79  # columns of a wrapped line, as gettext's programs write it


class _Text(str):
    """Text of a file, which polib divides into lines."""

    def splitlines(self, keepends: bool = False) -> list[str]:
        """Divide it at line feeds, not at other characters such as U+2028."""
        return self.split("\n")


def read_catalog(data: bytes, file: str, tags: str | None, fuzzy: bool = False) -> Document:
    """Read a PO file.

    The header and obsolete messages are left out, messages with escapes such as `\\303`, and fuzzy ones unless `fuzzy`.

    Args:
        tags: one of `align.transfer.tags.KINDS`; None for placeholders, and HTML in messages that have elements.

    Raises:
        DataError: the file is not valid; names the line.
    """
    declared = _CHARSET.search(data[:20000].partition(b"\n\n")[0])
    encoding = declared[1].decode() if declared and declared[1] != b"CHARSET" else "utf-8"
    text = decode(data, encoding, file)
    if match := _UNENDED.search(text):
        raise DataError("a string without its end", file=file, line=text.count("\n", 0, match.start()) + 1)
    if match := _HALF_OBSOLETE.search(text):
        raise DataError("not a valid PO file", file=file, line=text.count("\n", 0, match.end()) + 1)
    # comments may be anything except flags, and end with a line feed, as no file's name does
    content = _COMMENT.sub(lambda match: f"#, {match[2]}" if match[1] else "#", _OBSOLETE_FLAGS.sub("#", text)) + "\n"
    try:
        catalog = polib.pofile(_Text(content), encoding="utf-8")
    except OSError as error:
        where = re.search(r"\(line (\d+)\)", str(error))
        raise DataError("not a valid PO file", file=file, line=int(where[1]) if where else 0) from None
    lines: list[int] = []  # those of the messages' sources
    messages: list[list[re.Match[str]]] = []  # their sources and translations
    line, at = 1, 0
    for match in _KEYWORD.finditer(text):
        line, at = line + text.count("\n", at, match.start()), match.start()
        if match[1]:
            lines.append(line)
            messages.append([])
        messages[-1].append(match)
    frequent = frequent_forms(catalog.metadata.get("Plural-Forms", ""))
    language = next(iter(catalog.metadata.get("Language", "").split()), "")
    ending = "\r\n" if "\r\n" in text[:10000] else "\n"
    is_wrapped = not _LONG.search(text)
    segments: list[Segment] = []
    entries: dict[int, polib.POEntry] = {}
    for entry in catalog:
        unit = bisect_left(lines, entry.linenum)
        first, *strings = messages[unit]
        is_other = not strings or _OTHER_ESCAPE.search(text, first.start(), strings[-1].end())
        if (entry.fuzzy and not fuzzy) or not entry.msgid or is_other:
            continue
        entries[unit] = entry
        for match in strings:
            key, form = match[3], match[4]
            target = (entry.msgstr if form is None else entry.msgstr_plural[int(form)]) or None
            for_one = form == "0" and len(strings) > 1 and not any(frequent[:1])
            has_number = bool(entry.msgid_plural) and not for_one
            source, target, line_ends = split_line_ends(entry.msgid_plural if has_number else entry.msgid, target)
            if len(strings) > 1 and not has_number and target and not _NUMBER.search(target):
                # a singular without the number that its translation lacks; others keep their positions
                number = _NUMBER.search(source)
                is_before = number and number[0][0] == "%" and has_positional(source[number.end() :])
                model = "%1$d" if is_before and not has_positional(target) else target
                source = _NUMBER.sub("", numbered_as(source, model))
            kind = tags or ("html,placeholders" if _ELEMENT.search(source) else "placeholders")
            place = lines[unit], (unit, 0), match.span("string")
            segments.append(Segment(source, target, *place, (f"{key} ", ""), kind, ("", language), line_ends))

    def encode(content: str) -> bytes:
        try:
            return content.encode(encoding)
        except UnicodeEncodeError as error:
            character = show_value(content[error.start])
            raise DataError(f"{character} of a translation is not in {encoding}", file=file) from None

    def write(segment: Segment, target: str) -> str:
        key = segment.around[0]
        return key + ending.join(_wrap(target.join(segment.line_ends), len(key), is_wrapped))

    def check(forms: Sequence[Segment], targets: Sequence[str | None]) -> list[str]:
        entry = entries[forms[0].unit[0]]
        whole = ["" if text is None else text.join(form.line_ends) for form, text in zip(forms, targets, strict=True)]
        return message_errors(entry.msgid, entry.msgid_plural or None, whole, entry.flags, frequent)

    left_out = 0 if fuzzy else sum(entry.fuzzy and entry.msgid != "" for entry in catalog)
    remark = f", {plural(left_out, 'fuzzy message')} left out" if left_out else ""
    return Document(segments, text, encode, write, check, remark)


def split_line_ends(source: str, target: str | None) -> tuple[str, str | None, tuple[str, str]]:
    """Split off the line ends that both a source and its translation, if any, begin and end with."""
    both = [source, source if target is None else target]
    end = min(len(text) - len(text.rstrip("\n")) for text in both)
    both = [text[: len(text) - end] for text in both]
    start = min(len(text) - len(text.lstrip("\n")) for text in both)
    return both[0][start:], None if target is None else both[1][start:], ("\n" * start, "\n" * end)


def _wrap(text: str, used: int, is_wrapped: bool) -> list[str]:
    """Return the strings of a translation, one for a line, as gettext divides them; the first follows the keyword."""
    parts = [polib.escape(part) for part in re.findall(r"[^\n]*\n|[^\n]+", text)] or [""]
    if len(parts) == 1 and (not is_wrapped or used + len(parts[0]) + 2 <= WIDTH):
        return [f'"{parts[0]}"']
    rows = [""]
    for part in parts:
        row = ""
        for word in re.findall(r"[^ ]* *", part) if is_wrapped else [part]:
            if row and len(row) + len(word.rstrip(" ")) + 2 > WIDTH:
                rows.append(row)
                row = ""
            row += word
        rows += [row] if row else []
    return [f'"{row}"' for row in rows]
