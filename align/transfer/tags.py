"""Split a line into tags, placeholders and text; the tokens' texts joined are the line again.

Tokens are slices of the line, so that attributes, quotes and entities come back as they were written.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from html import escape, unescape
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple
from xml.parsers import expat

from align.core.text import find_spans, normalize
from align.models.punctuation import closes, opens
from align.transfer.format_strings import INTEGER, SIZE, STAR

Kind = Literal["text", "open", "close", "point"]

_VOID = "area base br col embed hr img input link meta param source track wbr"
VOID = frozenset(_VOID.split())  # HTML elements that have no content

_BLOCK = """address article aside blockquote body caption center col colgroup dd details dialog dir div dl dt fieldset
figcaption figure footer form frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li link main menu meta nav
noframes ol optgroup option p pre search section summary table tbody td tfoot th thead title tr ul"""
BLOCK = frozenset(_BLOCK.split())
"""Elements that contain sentences or stand between them, never within one; XML elements of these names count too."""

LETTER = (
    r"[^\W\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f"
    r"\U00020000-\U0003ffff]"
)
"""A letter or digit, but not of Chinese, Japanese, Korean, Thai and the like, whose words may touch a placeholder."""

_PRINTF = re.compile(
    r"%(?:\(\w{1,80}\)|(?P<number>[0-9]{1,3})\$)?[-+#0]*(?P<rare>(?:['I]| (?=[0-9.*]))[-+#0'I]*)?"
    rf"(?:{STAR}|[0-9]{{0,3}})(?:\.(?:{STAR}|[0-9]{{1,3}}))?(?:(?:{SIZE}(?=[diuoxX])|[lL](?=[aAeEfFgG])|l(?=[sc]))?"
    rf"(?P<type>[sdiuoxXfFeEgGcp@]|[aAn](?!{LETTER}))|{INTEGER})(?(rare)(?!{LETTER}))"
)
"""A placeholder that stands for an argument of printf; `%m` takes none. Text is `100 % der`, and `%Idee` (of C too)."""

_ESCAPED = r"(?<=\\u[0-9A-Fa-f]{4})|(?<=\\x[0-9A-Fa-f]{2})|(?<=\\[nrt])"
_START = rf"(?:(?<!{LETTER})|{_ESCAPED})"  # of a placeholder: no letter, or an escape, is before
_PLACEHOLDER = re.compile(
    r"\{\{[^{}]{1,80}\}\}"  # {{name}}
    r"|[$#%@]?\{[\w.:,!#-]{0,80}\}"  # {0}, {:.2f}, {}, {name}, ${name}, #{name}, %{name}, @{name}
    r"|\{ ?(?:\$[\w.-]{1,80}|[A-Z][A-Z0-9_-]{0,40}\([^(){}]{0,200}\)) ?\}"  # { $name }, { NUMBER($name) } of Fluent
    r"|%[0-9$]{0,4}#@\w{1,80}@"  # %#@name@ of iOS
    rf"|(?<!{LETTER})(?<!\$)\$t\((?:[^()]|\([^()]{{0,200}}\)){{1,400}}\)"  # $t(key, {"count": {{n}} }) of i18next
    rf"|(?<!{LETTER})@(?:\.[a-zA-Z]{{1,40}})?:"  # @:key, @.lower:key, @:(key) of vue-i18n
    r"(?:\([^()\s]{1,80}\)|\{[^{}]{1,80}\}|[A-Za-z0-9_$-]+(?:\.[A-Za-z0-9_$-]+)*)"
    rf"|{_START}(?<!%)%[A-Za-z_][A-Za-z0-9_]{{1,80}}%(?!{LETTER})"  # %name%
    rf"|(?:(?<![0-9%])|{_ESCAPED})(?:{_PRINTF.pattern}|%[-+#0]*m)"
    rf"|(?<![0-9%])%L?[0-9]{{1,2}}(?!{LETTER}|[%$])"  # %1 of Qt
    rf"|{_START}(?<!\$)\$[A-Za-z_][A-Za-z0-9_]{{0,80}}"  # $HOME, $name
    rf"|{_START}(?<![:/]):[a-z_][A-Za-z0-9_]{{1,80}}(?!{LETTER}|:)"  # :name
)

_IN_TAG = re.compile(rf"(?<![0-9%])(?!%[0-9A-Fa-f]{{2}}(?![$])){_PRINTF.pattern}")
"""The same in a tag or an address, where `%c3` is a character."""

_OF_TEXT = re.compile(r"%[^:]*[s@}]|\$\{[^:]*|[^%$:@][^:]*", re.DOTALL)
_FIRST = re.compile(rf"{LETTER}(?<!_)(?<![b-z](?!{LETTER}))")
_LAST = re.compile(rf"{LETTER}(?<!_)(?<!(?<!{LETTER})[b-z])")
"""Placeholders for text, and the first and last letter of words that they touch, which are no units, such as `x`."""

_NEXT = re.compile(r"\{(?::[^{}]*)?\}")  # a placeholder of Python's and Rust's formats for the next argument

_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^ \t<>\"]+")
"""Addresses, in which a percent sign begins an encoded character."""

PLACEHOLDER, ICU = "placeholder", "icu"
"""Names of the tokens that are placeholders: simple ones, and ICU's messages, which have text inside."""

_ICU_HEAD = re.compile(r"\{\s{0,9}[\w.$-]{1,80}\s{0,9},\s{0,9}(?:plural|select|selectordinal)\s{0,9},")
_ICU_KEY = re.compile(r"\s*(?:offset:[0-9]{1,9}\s+)?(?:=[0-9]{1,9}|[\w-]{1,80})\s*\{")
_ICU_END = re.compile(r"\s*\}")
_ICU_MARK = re.compile(r"''|'(?:[{}#|](?:[^']|'')*')?|[{}]")

_ROOT = b'<!DOCTYPE a SYSTEM ""><a>', b"</a>"
"""Prefix and suffix that make a document of a line; a document type that is never read permits any entity."""

XML_TAG = re.compile(
    r"<!--.*?-->|<\?.*?\?>|(?P<cdata><!\[CDATA\[.*?]]>)"
    r"|<!(?P<type>DOCTYPE(?:[^>[\"']|\"[^\"]*\"|'[^']*')*\[?)"
    r"|</(?P<close>[^\s>]+)\s*>|<(?P<open>[^\s/>]+)(?:[^<>\"']|\"[^\"]*\"|'[^']*')*?(?P<empty>/)?>",
    re.DOTALL,
)
"""A tag of well-formed XML, or anything else that may have angle brackets."""

_VALUE = r"""\s*=+(?!=)\s*(?!\s)(?:'[^']*'|"[^"]*"|(?!['"])[^>\s]*(?![^>\s]))"""
_ATTRIBUTES = rf"""(?:\s|/(?!>)|(?<=['"\s/])[^\s/>][^\s/=>]*(?:{_VALUE}|(?=[\s/>])(?!\s*=)))*"""
"""Attributes of HTML, each in one way only, so that a tag without its end takes no longer than others."""

_HTML_TAG = re.compile(
    r"(?P<point><!--.*?--\s*>|<!\[CDATA\[.*?]\s*]\s*>|<!(?!--|\[CDATA\[)[^>]*>"  # comments, declarations
    r"|<\?[^>]*>|</(?!>|\s*(?:[a-z]|[0-9]{1,9}\s*>))[^>]*>)"
    r"|</\s*(?P<close>[a-z][^\t\n\r\f />\x00]*|[0-9]{1,9}(?=\s*>))[^>]*>"
    rf"|(?P<tag><(?P<unread>script|style){_ATTRIBUTES}>)"
    r".*?(?=</\s*(?P=unread)\s*>|\Z)"  # content that is not text
    rf"|<(?P<open>[a-z][^\t\n\r\f />\x00]*(?=[\t\n\r\f />\x00])|[0-9]{{1,9}}(?=\s*/?>)){_ATTRIBUTES}(?P<empty>/)?>"
    r"|<[!a-z][^>]*>",  # a comment or a tag without its end
    re.DOTALL | re.IGNORECASE,
)
"""A tag of HTML, as browsers and Python's parser find it, or a numbered one; text if no group has a name."""


class Token(NamedTuple):
    """A part of a line: a tag or a placeholder, or the text between two of them."""

    kind: Kind  # "point" means a tag without content: void elements, comments, placeholders
    text: str
    name: str = ""
    key: str = ""  # name and id of inline elements of XLIFF or TMX, equal on both sides; an annotation's type

    @property
    def identity(self) -> str:
        """Return the key or the text; of an ICU message, whose texts are translated, the variable and the kind only."""
        head = _ICU_HEAD.match(self.text) if self.name == ICU else None
        return self.key or ("".join(head[0].split()) if head else self.text)


CDATA, BREAK = "cdata", "break"
"""Names of text tokens: a CDATA section of XML, with its marks; no text, but the end of a word."""

Event = tuple[int, Kind, str, str]  # offset of a token's start, its kind, name and key

_OPENING, _CLOSING, _LONE = ("bpt", "bx", "sc"), ("ept", "ex", "ec"), ("ph", "it", "ut")
CODES: dict[str, Kind] = {
    **dict.fromkeys(_OPENING, "open"),
    **dict.fromkeys(_CLOSING, "close"),
    **dict.fromkeys(_LONE, "point"),
    **{"x id": "point", "sm id": "open", "em startref": "close"},  # only with an attribute: HTML has an `em`, too
}
"""Inline elements of XLIFF and TMX whose content is code, not text, or that have none, and what they stand for."""

_AS_TAG = (r"^(START|OPEN)_(.+?)_?\d*$", r"<x\2>"), (r"^CLOSE_(.+?)_?\d*$", r"</x\1>"), (r"^[\[{](\S*)[\]}]$", r"<\1>")
_NO_ANNOTATION = {"translate", "seg", "protected", "x-protected"}  # attribute and types of other `mrk`
_PAIRING = "rid", "startref", "i", "id"
_IDENTITY = "id", "mid", "i", "x", "rid", "startref"
"""Attributes that identify an inline element and its other half, or the element itself; the first one counts."""

_ATTRIBUTE = re.compile(r"""([^\s"'<>/=]{1,100})(?:\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+))?""")


def attributes(tag: str) -> Iterator[tuple[str, str, int, int]]:
    """Yield the attributes of an opening tag: name in small letters, value, and where the value begins and ends."""
    name = re.match(r"<[^\s/>]*", tag)
    for match in _ATTRIBUTE.finditer(tag, name.end() if name else 0, len(tag.rstrip(">"))):
        value, (start, end) = match[2] or "", match.span(2)
        quotes = value[:1] in ("'", '"')
        yield match[1].lower(), value[1:-1] if quotes else value, start + quotes, end - quotes


def _identify(values: Mapping[str, str], names: Iterable[str]) -> str:
    """Return the first of these attributes; "" without any."""
    return next((values[name] for name in names if name in values), "")


def _cut(text: str, events: Iterable[Event]) -> list[Token]:
    """Split a line where tokens start; anything before the first is text."""
    bounds: list[Event] = [(0, "text", "", ""), *events, (len(text), "text", "", "")]
    return [Token(kind, text[a:b], name, key) for (a, kind, name, key), (b, *_) in pairwise(bounds) if b > a]


def parse_xml(text: str, check: bool = True) -> list[Token]:
    """Return the tokens of a line of XML, which must be well-formed if checked, but may have any entities."""
    try:
        if check:
            expat.ParserCreate("utf-8").Parse(text.encode().join(_ROOT), True)
    except expat.ExpatError as error:
        raise ValueError(f"not well-formed XML: {expat.ErrorString(error.code)}") from None
    events: list[Event] = []
    depth, annotations = 0, dict[str, str]()  # of elements within native code; keys of annotations by identifiers
    for match in XML_TAG.finditer(text):
        name = match["open"] or ""
        local = name.rpartition(":")[2]
        if not depth:
            values = {key: unescape(value) for key, value, *_ in attributes(match[0])} if name else {}
            identity = _identify(values, _IDENTITY)
            key = f"{local} {identity}" if identity else ""
            kind: Kind = "close" if match["close"] else "open" if name and not match["empty"] else "point"
            code = CODES.get(local) or next((CODES[k] for k in (f"{local} {n}" for n in values) if k in CODES), None)
            annotation = values.get("type") or values.get("mtype") or "generic"
            if code and local == "em":
                key = f"{annotations.get(identity, key)} end"
            elif name and local in ("mrk", "sm") and not {*values, annotation} & _NO_ANNOTATION:
                key = annotations[identity] = f"@{local} {annotation}"
            end = text.find(f"</{name}>", match.end()) if code and not (check or match["empty"]) else 0
            if end < 0 or f"<{name} " in text[match.end() : end]:
                key, code = "", None  # native code without its end
            elif code:
                kind, name = code, f"#{_identify(values, _PAIRING)}" if code != "point" else local
            elif match["cdata"]:
                kind, name = "text", CDATA
            events.append((match.start(), kind, match["close"] or name, key))
        if depth or code:
            depth += bool(match["open"] and not match["empty"]) - bool(match["close"])
        if not depth:
            events.append((match.end(), "text", "", ""))
    return _join(_cut(text, events), _half)


def _join(tokens: list[Token], half_of: Callable[[int, Token], tuple[str, str]]) -> list[Token]:
    """Make spans of points: of each that begins something with the next that ends the same, as `half_of` says."""
    opened: dict[str, list[int]] = defaultdict(list)
    for n, token in enumerate(tokens):
        kind, name = half_of(n, token) if token.kind == "point" else ("", "")
        if kind == "open":
            opened[name].append(n)
        elif kind == "close" and opened[name]:
            m, shared = opened[name].pop(), PLACEHOLDER if token.name == PLACEHOLDER else f"#<{name}"
            tokens[m] = tokens[m]._replace(kind="open", name=shared)
            tokens[n] = token._replace(kind="close", name=shared)
    return tokens


def _half(n: int, token: Token) -> tuple[str, str]:
    """Return what a standalone code of XLIFF or TMX begins or ends, by its identifier, its native code or `pos`."""
    tag = XML_TAG.match(token.text)
    if not tag or (tag["open"] or "").rpartition(":")[2] not in ("x", *_LONE):
        return "", ""
    values = {name: unescape(value) for name, value, *_ in attributes(tag[0])}
    content = unescape(token.text[tag.end() :].rpartition("</")[0].removeprefix("<![CDATA[").removesuffix("]]>"))
    for code in (content, *(values.get(name, "") for name in ("id", "equiv", "equiv-text", "disp"))):
        for pattern, tag_of in _AS_TAG:  # also Angular's identifiers, and tags in other brackets
            code = re.sub(pattern, tag_of, code.strip())
        parts = [part for part in parse_html(code) if part.kind != "point"]
        if len({part.kind for part in parts}) == 1 and parts[0].kind != "text":
            return parts[0].kind, " ".join(sorted(part.name for part in parts))
    pos = values.get("pos", "")
    return {"begin": "open", "end": "close"}.get(pos, pos), f"{values.get('type')} {values.get('ctype')}"


def parse_html(text: str) -> list[Token]:
    """Return the tokens of a line of HTML, which may be anything, also numbered tags: `<0>` of React, not `1<2>3`."""
    events: list[Event] = []
    closed = {*re.findall(r"</\s*([0-9]{1,9})\s*>", text)}
    last = text.rfind(">") + 1  # no tag ends after it, and each `<` would look for one
    for match in _HTML_TAG.finditer(text, 0, last):
        name = (match["unread"] or match["open"] or match["close"] or "").lower()
        if match["unread"]:
            events.append((match.start(), "open", name, ""))
            if match.end() < last:
                events.append((match.end("tag"), "point", "", ""))
        elif match["open"]:
            sides = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
            if name.isdecimal() and not match["empty"] and name not in closed and all(map(str.isalnum, sides)):
                continue
            kind: Kind = "point" if match["empty"] or name in VOID else "open"
            events += (match.start(), kind, name, ""), (match.end(), "text", "", "")
        elif match["close"] or match["point"]:
            events += (match.start(), "close" if name else "point", name, ""), (match.end(), "text", "", "")
    return _cut(text, events)


def icu_messages(text: str) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
    """Yield the start and end of each ICU plural or select in a text, and those of the texts in it.

    Of a message within another one's text, only the outer one is yielded.
    """
    head = _ICU_HEAD.search(text)
    opened: list[int] = []
    ends: dict[int, int] = {}  # offset of each closing brace by that of its opening one, without quoted ones
    for mark in _ICU_MARK.finditer(text, head.start()) if head else ():
        if mark[0] == "{":
            opened.append(mark.start())
        elif mark[0] == "}" and opened:
            ends[opened.pop()] = mark.start()
    while head:
        at, arms = head.end(), list[tuple[int, int]]()
        while (key := _ICU_KEY.match(text, at)) and key.end() - 1 in ends:
            arms.append((key.end(), ends[key.end() - 1]))
            at = arms[-1][1] + 1
        if arms and (last := _ICU_END.match(text, at)):
            at = last.end()
            yield head.start(), at, arms
        else:
            at = head.end()
        head = _ICU_HEAD.search(text, at)


def parse_placeholders(text: str, syntaxes: bool = True, patterns: Sequence[re.Pattern[str]] = ()) -> list[Token]:
    """Return the tokens of a line with placeholders.

    Args:
        syntaxes: whether `{0}`, `{{name}}`, `%s`, `%{name}`, `$NAME`, `:name` and the like are placeholders.
        patterns: more placeholders; earlier ones take precedence.
    """
    found = [(*match.span(), PLACEHOLDER) for each in patterns for match in each.finditer(text) if match[0]]
    if syntaxes:
        found += [(start, end, ICU) for start, end, _ in icu_messages(text)]
        found += [(*match.span(), "") for match in _ADDRESS.finditer(text)]  # which have no placeholders
        found += [(*match.span(), PLACEHOLDER) for match in _PLACEHOLDER.finditer(text)]
    taken = bytearray(len(text))  # 1 for each character of an earlier one
    events: list[Event] = []
    for start, end, name in found:
        if not name or taken.find(1, start, end) < 0:
            taken[start:end] = b"\1" * (end - start)
            events += [(start, "point", name, ""), (end, "text", "", "")] if name else []
    return _cut(text, sorted(events, key=lambda event: (event[0], event[1] == "point")))


_LIKE = re.compile(
    r"(?<![%0-9])%(?:[({\[<]|\w+%?)|\{[^{}]{0,80}\}|\$[A-Za-z_{(]|\[\[[^\[\]]{1,80}\]\]|\[[A-Za-z]{0,9}[0-9]{1,9}\]"
    r"|<%|⟦|__[A-Za-z]{1,80}__|(?<!\w)@[A-Za-z_]{2,80}@"
)


def count_lookalikes(tokens: Iterable[Token]) -> int:
    """Return how often a text has something like a placeholder that is not one of its tokens; 0 in addresses."""
    texts = (_ADDRESS.sub("", token.text) for token in tokens if token.kind == "text" and not token.name)
    return sum(len(_LIKE.findall(text)) for text in texts)


LOOKALIKES = "like placeholders, left as text"  # what a summary says of them
PLACEHOLDERS = "placeholders"
ESCAPED = ("xml", "html")  # kinds of tags, whose text has entities

KINDS = (*ESCAPED, PLACEHOLDERS, *(f"{kind},{PLACEHOLDERS}" for kind in ESCAPED))
"""Tags, placeholders, or both."""

MASK = "\ue000"
"""Stands for a character of an ICU message or of quoted text in one, which has no tags or placeholders."""


@dataclass(frozen=True, slots=True)
class Syntax:
    """What the tags and placeholders of a text look like."""

    tags: str  # "xml", "html", or empty for a text without tags
    placeholders: bool  # whether it has placeholders of the usual syntaxes
    patterns: Sequence[re.Pattern[str]] = ()  # more placeholders

    @classmethod
    def of(cls, kind: str | Syntax, patterns: Sequence[re.Pattern[str]] = ()) -> Syntax:
        """Return the syntax of one of KINDS, with more placeholders."""
        if isinstance(kind, Syntax):
            return kind
        if kind not in KINDS:
            raise ValueError(f"tags must be one of {', '.join(KINDS)}; got {kind!r}")
        tags = kind.partition(",")[0]
        return cls(tags if tags in ESCAPED else "", kind.endswith(PLACEHOLDERS), patterns)

    @property
    def escaped(self) -> bool:
        """Return whether the text has entities."""
        return bool(self.tags)

    @property
    def has_placeholders(self) -> bool:
        """Return whether the text has placeholders of any kind."""
        return self.placeholders or bool(self.patterns)

    def parse(self, text: str, check: bool = True) -> list[Token]:
        """Return the tokens of a text.

        Args:
            check: whether XML must be well-formed.
        """
        if not self.tags:
            return parse_placeholders(text, self.placeholders, self.patterns)
        parse_tags = partial(parse_xml, check=check) if self.tags == "xml" else parse_html
        if not self.has_placeholders:
            return parse_tags(text)
        masked = list(text)
        messages = icu_messages(text) if self.placeholders else ()  # these may have tags inside
        for start, end, *_ in (*messages, *(match.span() for match in re.finditer(INTEGER, text))):
            masked[start:end] = MASK * (end - start)
        tokens: list[Token] = []
        at = 0
        for token in parse_tags("".join(masked)):
            content = text[at : at + len(token.text)]
            at += len(token.text)
            if token.name == CDATA:  # what would have entities elsewhere is text there
                parts = parse_placeholders(content[9:-3], self.placeholders, self.patterns)
                parts = [Token("text", content[:9]), *parts, Token("text", content[-3:])]
                is_text = [part.kind == "text" or not {*part.text}.isdisjoint("&<") for part in parts]
                tokens += [Token("text", p.text, CDATA) if t else p for p, t in zip(parts, is_text, strict=True)]
            elif token.kind == "text":
                tokens += parse_placeholders(content, self.placeholders, self.patterns)
            else:
                tokens.append(token._replace(text=content))
        return tokens


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


_CHANGED = frozenset(["alt", "dir", "hreflang", "label", "lang", "placeholder", "rel", "summary", "title", "xml:lang"])
_ADDRESSES = frozenset(("href", "url", "xlink:href"))
"""Attributes that translators change: texts and languages, and addresses of links."""

_NUMBERED = re.compile(r"%[0-9]{1,3}\$")
_SAME_NAMES = {"strong": "b", "em": "i"}  # elements that look like others


def in_common(source: Sequence[Token], target: Sequence[Token]) -> tuple[list[Token], list[Token]]:
    """Give tags and placeholders of both sides one identity where a translator has adapted them.

    `%1$s` is the first `%s`, also with another width. An element without identifier that only the translation has is
    the one that only the source has if their attributes differ in what translators change: texts, languages, and the
    addresses of links.
    """
    sides = same_arguments(source, target)
    lone: list[dict[tuple[str, str], list[int]]] = []
    counts = [Counter(token.identity for token in side) for side in sides]
    for side, opposite in zip(sides, reversed(counts), strict=True):
        pairs, left = halves(side), Counter(opposite)
        ends = set(pairs.values())
        groups: dict[tuple[str, str], list[int]] = defaultdict(list)
        for n, token in enumerate(side):
            if token.kind == "text" or n in ends:
                continue
            if left[token.identity]:
                left[token.identity] -= 1
            elif token.name and not token.key and token.name[:1] != "#" and token.name not in (PLACEHOLDER, ICU):
                name = token.name.lower()
                is_alone = token.kind != "point" and n not in pairs
                kind = "half" if is_alone else "point" if token.kind == "point" or name in VOID else "element"
                groups[kind, _shape(token)] += (n, pairs[n]) if n in pairs else (n,)
        lone.append(groups)
    for kind, shape in lone[0].keys() & lone[1].keys():
        for side, groups in zip(sides, lone, strict=True):
            for n in groups[kind, shape]:
                side[n] = side[n]._replace(key=f"{side[n].kind} {shape}")
    return sides


def _shape(token: Token) -> str:
    """Return the name of an element and the attributes that translators do not change."""
    name = token.name.lower()
    values = []
    for attribute, value, *_ in attributes(token.text):
        value = unescape(value)
        is_link = attribute in _ADDRESSES and ("://" in value or (name == "a" and not value.startswith("#")))
        is_label = attribute == "value" and name in ("input", "button")
        is_label |= attribute == "target" and name == "a"
        if not (is_link or is_label or attribute in _CHANGED or attribute.startswith(("aria-", "data-"))):
            values.append(f"{attribute}={_NUMBERED.sub('%', value)}")
    return " ".join([_SAME_NAMES.get(name, name), *sorted(values)])


def same_arguments(source: Sequence[Token], target: Sequence[Token]) -> tuple[list[Token], list[Token]]:
    """Give placeholders of one argument of printf one identity, and numbers if only the translation's have them."""
    sides = [*source], [*target]
    ours, theirs = map(_arguments, sides)
    if any(argument.numbered for argument in theirs) and not any(argument.numbered for argument in ours):
        for argument in reversed(ours):
            token, at = sides[0][argument.token], argument.at + 1
            if token.kind != "text" and "*" not in token.text:
                text = f"{token.text[:at]}{argument.number}${token.text[at:]}"
                sides[0][argument.token] = token._replace(text=text)
    simple = [[argument for argument in side if argument.alone] for side in (ours, theirs)]
    texts = {sides[0][argument.token].text for argument in simple[0]}
    known = {(argument.number, argument.type): argument.token for argument in simple[0]}
    for argument in simple[1]:
        token, n = target[argument.token], known.get((argument.number, argument.type))
        if token.text not in texts and n is not None and " " not in token.text:
            sides[1][argument.token] = token._replace(key=sides[0][n].text)
    return sides


def pair_placeholders(tokens: Sequence[Token], known: Collection[str]) -> list[Token]:
    """Make spans of placeholders for text that touch words on their inner sides, as `%1$shere%2$s`; not of `known`."""
    texts = (unescape(token.text) if token.kind == "text" else " " * is_break(token) for token in tokens)
    parts = [MASK if token.name in (PLACEHOLDER, ICU) else text for token, text in zip(tokens, texts, strict=True)]
    plain, places = "".join(parts), [*accumulate(map(len, parts), initial=0)]

    def half_of(n: int, token: Token) -> tuple[str, str]:
        if token.name != PLACEHOLDER or token.identity in known or not _OF_TEXT.fullmatch(token.text):
            return "", ""
        at = places[n]
        before, after = plain[at - 1 : at], plain[at + 1 : at + 2]
        begins = _FIRST.match(plain, at + 1) and (before.strip() in ("", "'", "/") or opens(before))
        is_inside = before and (closes(before) > opens(before) or _LAST.match(plain, at - 1))
        ends = is_inside and (after.strip() in ("", "'", "/", "-") or closes(after))
        return "open" if begins else "close" if ends else "", re.sub(r"\w+", "", token.text)

    return _join([*tokens], half_of)


def numbered_as(source: str, target: str) -> str:
    """Return a text with placeholders, which get numbers if only those of its translation have them."""
    tokens, _ = same_arguments(parse_placeholders(source), parse_placeholders(target))
    return "".join(token.text for token in tokens)


def mixes_arguments(tokens: Sequence[Token]) -> bool:
    """Check for placeholders of printf with a number and without one."""
    return len({argument.numbered for argument in _arguments(tokens)}) > 1


def has_positional(text: str) -> bool:
    """Check for placeholders that take the next argument, as `%s` and `{}`: in a tag, or among adjacent ones."""
    tokens = [Token("point", text)] if text[:1] == "<" else parse_placeholders(text)
    return any(_NEXT.fullmatch(token.text) for token in tokens) or not all(each.numbered for each in _arguments(tokens))


class _Argument(NamedTuple):
    """A placeholder of printf."""

    token: int  # number of its token, a placeholder or a tag that contains it
    at: int  # its offset in the token
    number: int  # number of its argument, from 1
    type: str  # letter of its conversion, such as "d", also for "i"
    numbered: bool  # whether the number is written
    alone: bool  # whether it is all of the token


def _placeholders_in(token: Token) -> Iterator[tuple[int, str]]:
    """Yield the offsets and texts of placeholders: a token itself, or those of printf in a tag or in addresses."""
    if token.name == PLACEHOLDER:
        yield 0, token.text
    elif token.kind == "text":
        for address in _ADDRESS.finditer(token.text):
            yield from ((match.start(), match[0]) for match in _IN_TAG.finditer(token.text, *address.span()))
    elif token.kind != "close" and token.name != ICU and not token.text.startswith("<!--"):
        content = token.text.find(">") + 1  # of native code, whose attributes may repeat it
        start = content if content < len(token.text) else 0
        yield from ((match.start(), match[0]) for match in _IN_TAG.finditer(token.text, start))


def _arguments(tokens: Sequence[Token]) -> list[_Argument]:
    """Return the placeholders of printf without a name, also those in tags."""
    arguments: list[_Argument] = []
    count = 0  # of arguments, also of widths
    for n, token in enumerate(tokens):
        for at, text in _placeholders_in(token) if "%" in token.text else ():
            if (match := _PRINTF.fullmatch(text)) and "(" not in text:
                kind = (match["type"] or match["integer"]).replace("i", "d")
                count += text.count("*") + 1
                number = int(match["number"] or count)
                arguments.append(_Argument(n, at, number, kind, "$" in text, token.name == PLACEHOLDER))
    return arguments


_LINE_BREAK = re.compile(
    r"""\s(?:ctype|type|subType)\s*=\s*["'](?:x-html-|x-|xlf:)?(?:lb|br|tab)["']|\sid\s*=\s*["']LINE_BREAK"""
    r"""|&lt;br\b[^<>"']{0,80}?(?:&gt;|>)|>(?:[ ]*(?:\\[nrt]|[\n\r\t]))+[ ]*</""",
    re.IGNORECASE,
)
"""A tag of XLIFF or TMX that stands for the end of a line, or for a tab."""


def is_break(token: Token) -> bool:
    """Check whether a tag ends a word even without a space: a block, or a line break, also as native code."""
    if token.kind == "text" or token.name in _BREAKS:
        return token.kind != "text"
    return token.kind == "point" and token.text[:1] == "<" and _LINE_BREAK.search(token.text) is not None


_WORD = re.compile(r"[^ \t]+")
_ENTITY = re.compile(r"&(?:#[0-9]{1,9}|#[xX][0-9a-fA-F]{1,8}|[A-Za-z][A-Za-z0-9]{1,31});?")
_ENTITY_OR_CHARACTER = re.compile(rf"{_ENTITY.pattern}|.", re.DOTALL)
_SPACE = re.compile(r"[ \t\n]")
_LINE_ENDS = re.compile(r"\r\n|[\n\r\f]")
_SPACES = re.compile(
    r"\r\n|[\n\r\f\xa0\u2002-\u200a\u202f\u205f\u3000]|&(?:nbsp|ensp|emsp|emsp13|emsp14|thinsp|hairsp|numsp|puncsp"
    r"|#160|#819[4-9]|#820[0-2]|#8239|#[xX](?:[aA]0|200[2-9aA]|202[fF]));"
)
"""Line ends and spaces of HTML, as characters and as entities."""

_BREAKS = BLOCK | {"br"}  # elements that end a word even without a space

MAX_CELLS = 10_000_000
"""Limit of tags of a sentence, times words of both sides and characters of the longest; placing them takes seconds."""

NEAR = 200
"""Characters of a word that are read next to a tag: a line without spaces is one word, and may have many tags."""

INSIDE, UNMATCHED = "inside a word", "without its other half"  # remarks on a tag before it is placed


@dataclass(slots=True)
class Element:
    """An element, or a point: a tag or placeholder without content, or several adjacent ones."""

    tokens: tuple[int, int]  # numbers of the first and the last of its tokens; the first identifies it
    start: int  # offsets of its start and its end in the plain text
    end: int
    point: bool
    block: bool  # whether it contains whole sentences, or an element in it does
    children: list[Element] = field(default_factory=list)
    words: tuple[int, int] = (0, 0)  # the first, and the one after the last; of a point, twice the word after it
    before: str = ""  # text that touches it on its left, up to the next space
    behind: str = ""  # the same on its right
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Markup:
    """A line with tags."""

    tokens: Sequence[Token]
    plain: str  # the line without its tags; block tags and `<br>` leave a space between words they separate
    shown: str  # the same, with the character of each entity in its place, repeated
    words: Sequence[tuple[int, int]]  # start and end of each of its words
    root: Element  # an element that contains all of it and has no tags itself
    syntax: Syntax

    def readable(self) -> tuple[str, ...]:
        """Return the words as a model reads them: without entities."""
        return readable((self.plain[start:end] for start, end in self.words), self.syntax.escaped)

    def with_words(self, words: Sequence[tuple[int, int]]) -> Markup:
        """Return the line with other words, given by their starts and ends in the plain text."""
        return _markup(self.tokens, self.syntax, words)

    def edges(self, element: Element) -> tuple[tuple[int, str], tuple[int, str]]:
        """Return where an element starts in its first word, and that word; where it ends in its last word, and that."""
        n = min(bisect_right(self.words, element.start, key=lambda span: span[1]), len(self.words) - 1)
        m = max(bisect_left(self.words, element.end, key=lambda span: span[0]) - 1, 0)
        (start, end), (last_start, last_end) = self.words[n], self.words[m]
        first, last = self.shown[start:end], self.shown[last_start:last_end]
        return (max(0, element.start - start), first), (min(element.end, last_end) - last_start, last)

    def tags(self, element: Element) -> list[tuple[int, str]]:
        """Return the tokens of an element and of those in it, each with the space before it.

        A space next to placeholders replaces text.
        """
        tags, space = [], ""
        first, last = element.tokens
        for n, token in enumerate(self.tokens[first : last + 1], first):
            if token.kind != "text":
                tags.append((n, space))
                space = ""
            elif token.text and {PLACEHOLDER, ICU} & {near.name for near in self.tokens[max(first, n - 1) : n + 2]}:
                space = " "
        return tags


def readable(words: Iterable[str], escaped: bool) -> tuple[str, ...]:
    """Replace entities of one character in words, if `escaped`; a word that would get a space stays unchanged."""
    if not escaped:
        return tuple(words)
    decoded = ((word, _ENTITY.sub(_character, word) if "&" in word else word) for word in words)
    return tuple(plain if plain and not _SPACE.search(plain) else word for word, plain in decoded)


def _character(entity: re.Match[str]) -> str:
    """Return the character of an entity; the entity itself if it stands for none, or for several."""
    character = unescape(entity[0])
    return character if len(character) == 1 else entity[0]


def show(text: str, escaped: bool) -> str:
    """Return a text of the same length with the character of each entity in its place, repeated, if `escaped`."""
    if not escaped or "&" not in text:
        return text
    return _ENTITY.sub(lambda entity: c * len(entity[0]) if len(c := _character(entity)) == 1 else c, text)


def find_words(words: Sequence[str], text: str, escaped: bool) -> list[tuple[int, int]]:
    """Return the start and end of words in a text, as it is written.

    Args:
        words: the words in order, as a model reads them; they may touch each other.
    """
    if not (escaped and "&" in text):
        return find_spans(words, text)
    shown, places = "", list[tuple[int, int]]()  # the text as a model reads it, and where its characters are
    for start, end in words_in(text):
        word = text[start:end]
        (plain,) = readable([word], escaped)
        shown += f"{plain} "
        for match in _ENTITY_OR_CHARACTER.finditer(word):
            one = plain != word and len(_character(match)) == 1
            step = len(match[0]) if one else 1
            places += [(n, n + step) for n in range(start + match.start(), start + match.end(), step)]
        places.append((end, end))
    return [(places[first][0], places[last - 1][1]) for first, last in find_spans(words, shown)]


def words_in(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each word of a text."""
    return [match.span() for match in _WORD.finditer(text)]


def has_letters(text: str) -> bool:
    """Check whether a text has a letter, a digit or anything else that is not punctuation."""
    return any(not unicodedata.category(character).startswith("P") for character in normalize(text))


def check_size(tokens: Sequence[Token], target: str) -> None:
    """Check that tags are not too many to be placed in a translation.

    Raises:
        ValueError: they are.
    """
    tags = sum(token.kind != "text" for token in tokens)
    texts = [target, *(token.text for token in tokens if token.kind == "text")]
    words = [word for part in texts for word in part.split()]
    if tags * (len(words) + max(map(len, words), default=0)) > MAX_CELLS:
        raise ValueError(f"{tags:,} tags and {len(words):,} words are too many for one sentence")


def without_section(token: Token) -> Token:
    """Return the text of a CDATA section as it would be written without one; any other token as it is."""
    content = token.text.removeprefix("<![CDATA[").removesuffix("]]>")
    return Token("text", escape(content, quote=False)) if token.name == CDATA else token


def markup_of(tokens: Sequence[Token], syntax: Syntax, *, spaces: bool = True) -> Markup:
    """Return a line of these tokens.

    Args:
        spaces: whether no-break spaces, and entities of spaces, separate words, if the text has entities.
    """
    if syntax.escaped:
        pattern, written = _SPACES if spaces else _LINE_ENDS, list[Token]()
        for token in map(without_section, tokens):
            written.append(token._replace(text=pattern.sub(" ", token.text)) if token.kind == "text" else token)
        tokens = written
    return _markup(tokens, syntax, None)


def _markup(tokens: Sequence[Token], syntax: Syntax, words: Sequence[tuple[int, int]] | None) -> Markup:
    """Return a line with these words, or those between spaces."""
    plain, root = _tree(tokens)
    words = words_in(plain) if words is None else words
    shown = show(plain, syntax.escaped)
    _find_words(root, shown, words)
    root.words = (0, len(words))
    return Markup(tokens, plain, shown, words, root, syntax)


def _tree(tokens: Sequence[Token]) -> tuple[str, Element]:
    """Return the plain text, and an element that contains all of it."""
    pairs = halves(tokens)
    ends = set(pairs.values())
    root = Element((-1, len(tokens)), 0, 0, point=False, block=False)
    inside, parts, at, parted = [root], list[str](), 0, False
    last = -1  # the tag before, if there is no text between
    for n, token in enumerate(tokens):
        if token.kind == "text":
            if not token.text:
                parted = parted or token.name == BREAK
                continue
            if parted and parts and parts[-1][-1] not in " \t" and token.text[0] not in " \t":
                parts.append(" ")
                at += 1
            parts.append(token.text)
            at += len(token.text)
            parted, last = False, -1
            continue
        parted = parted or is_break(token)
        parent, block = inside[-1], token.name in BLOCK
        if token.name in ("link", "option") and tokens[parent.tokens[0]].name not in ("select", "optgroup", "datalist"):
            block = n not in pairs  # an element of DocBook, DITA or Mallard within a sentence
        before = parent.children[-1] if parent.children else None
        if n in pairs:
            parent.children.append(Element((n, pairs[n]), at, at, point=False, block=block))
            inside.append(parent.children[-1])
        elif n in ends:
            inside.pop().end = at
            inside[-1].block |= parent.block
        elif before and before.point and before.tokens[1] == last and before.block == block:
            before.tokens = (before.tokens[0], n)
        else:
            remarks = () if token.kind == "point" else (UNMATCHED,)
            parent.children.append(Element((n, n), at, at, point=True, block=block, remarks=remarks))
            parent.block |= block
        last = n
    root.end, root.block = at, False
    return "".join(parts), root


def _find_words(root: Element, plain: str, words: Sequence[tuple[int, int]]) -> None:
    """Set the words of all elements in a tree, and the text that touches them."""
    ends = [end for _, end in words]
    waiting = list(root.children)
    while waiting:
        element = waiting.pop()
        waiting.extend(element.children)
        n, element.before, first, starts_inside = _around(element.start, plain, words, ends)
        m, last, element.behind, ends_inside = _around(element.end, plain, words, ends)
        inside = bool(starts_inside and element.before and first), bool(ends_inside and last and element.behind)
        sides = (inside[0], element.before, first), (inside[1], last, element.behind)
        is_cut = any(touches and has_letters(left) and has_letters(right) for touches, left, right in sides)
        begin = n + (inside[0] and not has_letters(first))
        after = m + (inside[1] and has_letters(last))
        if not plain[element.start : element.end].strip(" \t"):
            begin = after = n + (inside[0] and (has_letters(element.before) or not has_letters(first)))
        elif begin >= after:  # around punctuation of a word, not around the word
            begin, after, is_cut = n, n + 1, True
        element.words = (begin, after)
        if is_cut:
            element.remarks += (INSIDE,)


def _around(at: int, plain: str, words: Sequence[tuple[int, int]], ends: Sequence[int]) -> tuple[int, str, str, bool]:
    """Return how many words end up to an offset of a text, the visible text next to it, and whether it is in a word."""
    n = bisect_right(ends, at)
    before = plain[max(words[n - 1][0], at - NEAR) : at] if n and ends[n - 1] == at else ""
    behind = plain[at : min(words[n][1], at + NEAR)] if n < len(words) and words[n][0] <= at else ""
    inside = bool(behind) and words[n][0] < at
    if inside:
        before = plain[max(words[n][0], at - NEAR) : at]
    elif before and behind:  # two words touch, as in text without spaces: only punctuation counts
        before, behind = ("" if has_letters(text) else text for text in (before, behind))
    return n, normalize(before), normalize(behind), inside
