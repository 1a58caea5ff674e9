"""Split a line into tags, placeholders and text; the tokens' texts joined are the line again.

Python's own parsers find the tags, since they give the position of each in the line: tokens are slices of the line, so
that attributes, quotes and entities come back as they were written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any, Literal, NamedTuple
from xml.parsers import expat

Kind = Literal["text", "open", "close", "point"]

_VOID = "area base br col embed hr img input link meta param source track wbr"
VOID = frozenset(_VOID.split())
"""HTML elements that have no content."""

_BLOCK = """address article aside blockquote body caption center col colgroup dd details dialog dir div dl dt fieldset
figcaption figure footer form frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li link main menu meta nav
noframes ol optgroup option p pre search section summary table tbody td tfoot th thead title tr ul"""
BLOCK = frozenset(_BLOCK.split())
"""Elements that contain sentences or stand between them, never within one; XML elements of these names count too."""

_UNREAD = ("script", "style")
"""HTML elements whose content is not text."""

_PLACEHOLDER = re.compile(
    r"\{\{[^{}]{1,80}\}\}|\$?\{[\w.:,!#-]{0,80}\}"  # {{name}}, ${name}, {0}, {:.2f}, {}
    r"|(?<![0-9%])%(?:\(\w{1,80}\)|[0-9]{1,3}\$)?[-+#0]*[0-9]{0,3}(?:\.[0-9]{1,3})?(?:hh|ll|[hljztL])?[sdiuoxXfFeEgGc@]"
)
_ROOT = b'<!DOCTYPE a SYSTEM ""><a>', b"</a>"
"""Prefix and suffix that make a document of a line; a document type that is never read permits any entity."""


class Token(NamedTuple):
    """A part of a line: a tag or a placeholder, or the text between two of them.

    Attributes:
        kind: "point" means a tag without content: void elements, comments, placeholders.
    """

    kind: Kind
    text: str
    name: str = ""


Event = tuple[int, Kind, str]
"""Offset of a token's start, its kind and its name."""


def _cut(text: str, events: Sequence[Event]) -> list[Token]:
    """Split a line where tokens start; anything before the first is text."""
    bounds: list[Event] = [(0, "text", ""), *events, (len(text), "text", "")]
    return [Token(kind, text[start:end], name) for (start, kind, name), (end, *_) in pairwise(bounds) if end > start]


def parse_xml(text: str) -> list[Token]:
    """Return the tokens of a line of XML, which must be well-formed but may have any entities.

    Raises:
        ValueError: the line is not well-formed.
    """
    data = text.encode()
    parser = expat.ParserCreate("utf-8")
    events: list[Event] = []

    def found(kind: Kind) -> Callable[..., None]:
        def handle(*args: Any) -> None:
            name = args[0] if kind in ("open", "close") else ""
            events.append((parser.CurrentByteIndex - len(_ROOT[0]), kind, name))

        return handle

    parser.StartElementHandler = found("open")
    parser.EndElementHandler = found("close")
    parser.CommentHandler = parser.ProcessingInstructionHandler = found("point")
    parser.CharacterDataHandler = parser.SkippedEntityHandler = found("text")
    parser.StartCdataSectionHandler = parser.EndCdataSectionHandler = found("text")
    try:
        parser.Parse(data.join(_ROOT), True)
    except expat.ExpatError as error:
        raise ValueError(f"not well-formed XML: {expat.ErrorString(error.code)}") from None
    tokens: list[Token] = []
    for (start, kind, name), (end, *_) in pairwise(events[1:]):
        if kind == "close" and start == end and tokens[-1].kind == "open":
            tokens[-1] = tokens[-1]._replace(kind="point")  # <x/>, whose end tag is not in the text
        elif start < end:
            tokens.append(Token(kind, data[start:end].decode(), name))
    return tokens


class _Html(HTMLParser):
    """Records where each token starts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self.events: list[Event] = []
        self._lines = [0, *(match.end() for match in re.finditer("\n", text))]
        end = text.rfind(">") + 1  # no tag ends after it, and Python's parser searches for an end from each `<`
        self.feed(text[:end])
        self.close()
        self.events.append((end, "point" if self.cdata_elem in _UNREAD else "text", ""))

    def _add(self, kind: Kind, name: str = "") -> None:
        line, column = self.getpos()
        self.events.append((self._lines[line - 1] + column, kind, name))

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._add("point" if tag in VOID else "open", tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self._add("point", tag)

    def handle_endtag(self, tag: str) -> None:
        self._add("close", tag)

    def handle_data(self, data: str) -> None:
        self._add("point" if self.cdata_elem in _UNREAD else "text")

    def handle_entityref(self, name: str) -> None:
        self._add("text")

    def handle_charref(self, name: str) -> None:
        self._add("text")

    def handle_comment(self, data: str) -> None:
        self._add("point")

    def handle_decl(self, decl: str) -> None:
        self._add("point")

    def handle_pi(self, data: str) -> None:
        self._add("point")

    def unknown_decl(self, data: str) -> None:
        self._add("point")


def parse_html(text: str) -> list[Token]:
    """Return the tokens of a line of HTML, which may be anything.

    Raises:
        ValueError: Python's parser fails at a declaration.
    """
    try:
        return _cut(text, _Html(text).events)
    except AssertionError as error:
        raise ValueError(f"HTML that cannot be read: {error}") from None


def parse_placeholders(text: str) -> list[Token]:
    """Return the tokens of a line with placeholders, e.g. `{0}`, `{name}`, `{{name}}`, `${name}`, `%s`, `%(name)s`."""
    events: list[Event] = []
    for match in _PLACEHOLDER.finditer(text):
        events += [(match.start(), "point", ""), (match.end(), "text", "")]
    return _cut(text, events)


PARSERS: dict[str, Callable[[str], list[Token]]] = {
    "xml": parse_xml,
    "html": parse_html,
    "placeholders": parse_placeholders,
}

ESCAPED = ("xml", "html")
"""Kinds of tags whose text has entities."""


def halves(tokens: Sequence[Token]) -> dict[int, int]:
    """Match opening and closing tags: return the number of the closing token by that of the opening one.

    A closing tag ends the last open element of its name; elements opened after that stay unmatched.
    """
    pairs: dict[int, int] = {}
    opened: list[int] = []
    names: Counter[str] = Counter()
    for n, token in enumerate(tokens):
        if token.kind == "open":
            opened.append(n)
            names[token.name] += 1
        elif token.kind == "close" and names[token.name]:
            while tokens[opened[-1]].name != token.name:
                names[tokens[opened.pop()].name] -= 1
            names[token.name] -= 1
            pairs[opened.pop()] = n
    return pairs
