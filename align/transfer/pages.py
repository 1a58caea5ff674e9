"""Cut text with tags into segments at block elements, and put their translations back in the same places.

Everything between segments, such as scripts, comments and block tags, stays byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import unescape
from itertools import accumulate, groupby
from typing import Literal, NamedTuple

from align.transfer.markup import around, unbroken_parts
from align.transfer.tags import (
    BLOCK,
    ICU,
    LETTER,
    MASK,
    PLACEHOLDER,
    Syntax,
    Token,
    attributes,
    check_size,
    halves,
    icu_messages,
    parse_placeholders,
)
from align.transfer.tree import spare_annotations

KEEP = ("code", "kbd", "samp", "pre", "var")  # elements whose content is not translated, by default

_NEVER = frozenset(("math", "script", "style", "svg", "textarea"))
"""Elements of HTML whose content is never text to translate."""

_SEPARATE = BLOCK | {"audio", "button", "canvas", "iframe", "noscript", "select", "template", "textarea", "video"}
"""Elements that stand between segments."""

_ICU_QUOTED = re.compile(r"''|'[{}#|](?:[^']|'')*'")
_ICU_KEPT = re.compile(rf"(#|{_ICU_QUOTED.pattern})")
"""Parts of a text within an ICU message that its translation has too: the number, and quoted text."""

_MOST_NESTED = 20  # ICU messages within each other up to which their texts are translated
KEPT, _SPACE, _LINE_END = "kept", "br", "hr"  # names of tokens: content to keep as it is, and escapes that part words

_ROWS = frozenset(("tbody", "tfoot", "thead", "tr"))
_ENDED_BY = {
    "p": BLOCK,
    "li": frozenset(("li",)),
    **dict.fromkeys(("dt", "dd"), frozenset(("dt", "dd"))),
    **dict.fromkeys(("td", "th"), _ROWS | {"td", "th"}),
    **dict.fromkeys(("tbody", "tfoot", "thead"), _ROWS - {"tr"}),
    "tr": _ROWS,
    "option": frozenset(("option", "optgroup")),
}
"""Elements whose end tag is optional: the elements before which they end, and at the end of what they are in."""

_TAG = re.compile(r"""<[A-Za-z](?:[^"'>]|"[^"]*"|'[^']*')*>""")
_UNQUOTED = re.compile(r"""[^\s"'=<>`]+""")

_VALUE = r"(?:\[=[^\s\[\]]{1,60}\]|=\"+[^\"\s]{0,200}\"+|=(?:(?:[A-Za-z]:\\\S{0,200}|[^\s\\]{0,200})[\w/*%>])?)?"
_OPTION = rf"(?<![\w/-])(?:--(?:\[no-\])?[a-z][\w-]{{0,60}}{_VALUE}|-(?:[A-Za-z][0-9]?|[a-z]{{2}})(?![\w-]))"
_ESCAPE = re.compile(r"\\(?:[\"']|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2})")  # of a character in a program's string

_KEPT_TEXT = re.compile(
    rf"(?P<ends>(?:\\{{1,2}}[nrt])+|(?=(?P<option>{_OPTION}))(?P=option)"  # as a whole: values may have commas
    rf"(?:(?:, ?| )(?=(?P<other>{_OPTION}))(?P=other)){{0,4}}(?: [A-Z]{{2,20}})?(?:  |\t)[ \t]*)|{_OPTION}"
    r"|(?P<path>\b[a-z][a-z0-9+.-]{1,20}://[^\s<>\"]+"  # addresses
    r"|\bwww\.[^\s<>\"]+"
    r"|(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+"
    r"|(?<![\w.~/<>&;:%+-])(?:~|\.{1,2})?(?:/[\w.+@%~-]+)+/?"  # paths
    r"|(?<![\w.+/-])(?:[\w+-][\w.+-]{0,80}/){1,20}[\w+-]{1,80}\.[a-z]\w{0,5}\b"
    r"|\b[A-Za-z]:\\[^\s<>\"|]+|(?<![^\s\"'(])\\\\[\w.$-]+(?:\\[^\s<>\"|]*)?)"
    r"|(?<!\w)(?a:(?=\w{0,80}[^\W_]_[^\W_]|__\w{1,80}__)\w+(?:\.[a-z]\w{0,5})?)(?!\w)"  # names such as max_size
    r"|\\(?:033|e|x1[bB])\[[\d;]{0,20}[A-Za-z]|\\[abefv](?!\w)|(?:(?<![\d.,])[\d.,]+)?%%"  # of terminals, and of printf
    rf"|(?P<lines>[\r\n]\s*)|(?P<escape>{_ESCAPE.pattern})|\\(?:U[0-9A-Fa-f]{{8}}|[0-7]{{1,3}}|[!#-%(-;=-@\[-`{{-~])"
    r"|\{\{[^{}]{1,200}\}\}|\{%[^%]{1,200}%\}|<%[^%]{1,200}%>|⟦[^⟦⟧]{1,80}⟧"  # of templates
    r"|(?P<entity>&[A-Za-z_][\w.-]{0,80};)"
)
_AFTER = ".,;:!?)]}'»”’*`"  # marks that end a sentence or a bracket, not an address
_NAMED, _BOUNDS = re.compile(r"&#?\w{1,31};"), "<>\"'\xa0"  # entities, and characters that end addresses so, too
_LEAD = re.compile(r"\s*(?:(?:#{1,6}|[-*+>]|\[[ xX]\])\s+)*")  # marks before headings, items and quotations

WORD_LETTER = LETTER.replace("^", r"^\d", 1)  # a pattern of a letter that parts a word from a number

_MASKS = dict.fromkeys((KEPT, PLACEHOLDER, ICU), "\ue001") | dict.fromkeys((_SPACE, *_SEPARATE), "\ue002")
"""Characters that stand for tokens by their names: for words and for spaces; U+E000 stands for others."""
_PAIR = re.compile(
    r"(?<![^\s\ue000\ue002(\[{\"'„“‚‘«»>*_~|:/—–-])(?:(?P<code>`{1,2})(?![`\s])[^`\ue002]{1,200}(?<!\s)(?P=code)(?!`)"
    r"|(?P<mark>(?P<char>[*_])(?P=char){0,2}|~~)(?=[^\s\w]{0,3}[\w\ue000\ue001])(?!(?P=char))"
    r"(?P<words>[^\ue002]{1,1000}?)(?<![\s([{])(?P=mark)(?![\w\ue001]|(?P=char))"
    r"|!?\[\s*(?P<link>(?!\s)(?:[^\[\]\ue002]|\[[^\[\]\ue002]{0,200}\]){1,1000}(?<!\s))"
    r"\s*\](?:\((?:[^\s()\ue002]|\([^\s()\ue002]{0,99}\)){0,500}(?:\s\"[^\"\ue002]{0,200}\")?\)|\[[^\[\]\ue002]{0,99}\]))"
)
"""Markdown's emphasis, code and links."""


def unescaped(text: str) -> str:
    """Return a text with the characters that escapes stand for."""
    return _ESCAPE.sub(lambda match: chr(int(match[0][2:], 16)) if match[0][2:] else match[0][1], text)


def _replace_each(text: str, new: Mapping[str, Sequence[str]]) -> str:
    """Replace texts, each by the first of its replacements that is left, or by the last one."""
    left = {old: [*reversed(texts)] for old, texts in new.items()}
    pattern = "|".join(map(re.escape, sorted(new, key=len, reverse=True))) or "(?!)"
    return re.sub(pattern, lambda match: left[match[0]].pop() if left[match[0]][1:] else left[match[0]][0], text)


def _is_kept(token: Token, names: frozenset[str]) -> bool:
    """Tell whether an element is to be kept: by its name, `translate="no"`, `class="notranslate"`, or XLIFF's mtype."""
    if token.name in names:
        return True
    values = {name: value.lower() for name, value, *_ in attributes(token.text)}
    protected = values.get("mtype") in ("protected", "x-protected")
    return protected or values.get("translate") == "no" or "notranslate" in values.get("class", "").split()


def keep_elements(tokens: Sequence[Token], names: Iterable[str], syntax: Syntax) -> list[Token]:
    """Make one token of each element to keep, and of each address, path, option or escape in the text.

    If the text has entities, those without a known character are kept, too; if not, line ends are no spaces.
    """
    pairs = halves(tokens)
    kept_names = frozenset(names) | (_NEVER if syntax.tags == "html" else set())
    result: list[Token] = []
    n = 0
    while n < len(tokens):
        token, end = tokens[n], n
        if token.kind == "open" and _is_kept(token, kept_names):
            end = pairs[n] if n in pairs else _implied_end(tokens, n)
            inside = tokens[n : end + 1]
            name = next((part.name for part in inside if part.kind != "text" and part.name in _SEPARATE), KEPT)
            result.append(Token("point", "".join(part.text for part in inside), name))
        elif token.kind == "text" and not token.name:
            result += _keep_text(token.text, syntax)
        else:
            result.append(token)
        n = end + 1
    return _find_pairs([token for token in result if token.text])


def _find_pairs(tokens: list[Token]) -> list[Token]:
    """Make tags of Markdown's marks around words, and one token of code."""
    others = [token for token in tokens if token.kind != "text" or token.name]
    masks = [_MASKS.get(token.name, "\ue000") for token in others]
    rest, left = iter(masks), iter(others)
    shown = "".join(next(rest) if token.kind != "text" or token.name else token.text for token in tokens)
    if re.findall("[\ue000-\ue002]", shown) != masks:
        return tokens  # the text has such characters itself

    def cut(start: int, end: int) -> Iterator[Token]:
        for part in filter(None, re.split("([\ue000-\ue002])", shown[start:end])):
            yield next(left) if "\ue000" <= part <= "\ue002" else Token("text", part)

    def read(start: int, end: int) -> Iterator[Token]:
        for match in _PAIR.finditer(shown, start, end):
            yield from cut(start, match.start())
            start = match.end()
            first, last = match.span("words" if match["mark"] else "link")
            if not match["code"]:
                yield Token("open", shown[match.start() : first], match["mark"] or "[")
                yield from read(first, last)
            kept = "".join(token.text for token in cut(max(last, match.start()), start))
            yield Token("point", kept, KEPT) if match["code"] else Token("close", kept, match["mark"] or "[")
        yield from cut(start, end)

    return [*read(0, len(shown))]


def _implied_end(tokens: Sequence[Token], start: int) -> int:
    """Return the last token of an element without an end tag; see the HTML standard, "optional tags"."""
    names = _ENDED_BY.get(tokens[start].name, frozenset())
    depth = 0
    for n in range(start + 1, len(tokens)):
        kind, name = tokens[n].kind, tokens[n].name
        if kind not in ("open", "close") or name not in BLOCK:
            continue
        if depth == 0 and (kind == "close" or name in names):
            return n - 1
        if name not in _ENDED_BY:
            depth += 1 if kind == "open" else -1
    return len(tokens) - 1


def _keep_text(text: str, syntax: Syntax) -> Iterator[Token]:
    """Yield the tokens of a text: what is kept of it, and the text between. No entity is cut."""
    at, entities, parts = 0, syntax.escaped, unbroken_parts(text, syntax)
    visible = _NAMED.sub(lambda name: c * len(name[0]) if (c := unescape(name[0])) in _BOUNDS else name[0], text)
    for match in _KEPT_TEXT.finditer(visible if entities else text):
        start, end = match.span()
        character = unescaped(match["escape"] or "0")
        is_known = match["entity"] and (not entities or unescape(match[0]) != match[0])
        if is_known or (entities and match["lines"]) or character in "\"'" or (character.isalpha() and character > "~"):
            continue
        if match["path"]:
            end = start + len(match[0].rstrip(_AFTER))
            end += match[0][: end - start].count("(") > match[0][: end - start].count(")")
        end = around(parts, end)[1]
        if end > start + 1 or match["lines"]:
            name = _LINE_END if match["ends"] or match["lines"] else _SPACE if character.isspace() else KEPT
            yield Token("text", text[at:start])
            yield Token("point", text[start:end], name)
            at = end
    yield Token("text", text[at:])


class Segment(NamedTuple):
    """Text between block elements, an attribute's value, or a text within an ICU message."""

    tokens: Sequence[Token]  # those of KEPT and PLACEHOLDER stand for what a translation contains as it is
    line: int
    syntax: Syntax
    kind: Literal["text", "quoted", "unquoted", "icu"] = "text"  # quoted and unquoted: an attribute's value

    @property
    def text(self) -> str:
        """Return the segment as it is written."""
        return "".join(token.text for token in self.tokens)

    def escape(self, text: str) -> str:
        """Return a translation with escapes, each in its turn, and without spaces next to those of spaces."""
        forms: dict[str, list[str]] = {}
        for token in self.tokens:
            own, is_text = token.text, token.kind == "text"
            if token.name == _SPACE and own[0] != "<":
                forms |= {spaced: [own] for spaced in (f" {own} ", f" {own}", f"{own} ") if spaced not in self.text}
            for part in re.findall(rf"{_ESCAPE.pattern}|.", own, re.DOTALL) if is_text else [own]:
                forms.setdefault(unescaped(part) if is_text else part, []).append(part)
        return _replace_each(text, {old: new for old, new in forms.items() if old[1:] or {*new} != {old}})


Part = str | int  # text that stays as it is, or the number of a segment


class Page:
    """A text with tags, cut into segments.

    Args:
        keep: names of elements whose content is not translated.
        translated: names of attributes whose values are segments.
    """

    def __init__(
        self,
        text: str,
        tags: str | Syntax,
        *,
        keep: Iterable[str] = KEEP,
        translated: Iterable[str] = (),
        line: int = 1,
    ) -> None:
        self.segments: list[Segment] = []  # those with letters, each after the segments that are inside it
        self._parts: list[Part] = []
        self._inside: list[list[tuple[str, list[Part]]]] = []  # of each segment: tokens that have segments
        self._syntax = Syntax.of(tags)
        self._translated = frozenset(translated)
        tokens = keep_elements(self._syntax.parse(text), keep, self._syntax)
        spare = spare_annotations(tokens, ())
        tokens = [token for n, token in enumerate(tokens) if n not in spare]
        lines = accumulate((token.text.count("\n") for token in tokens), initial=line)
        run: list[tuple[Token, int]] = []
        for token, number in zip(tokens, lines, strict=False):
            if token.kind != "text" and token.name in _SEPARATE:
                self._end(run)
                run = []
                self._parts += self._divide(token, number)
            else:
                run.append((token, number))
        self._end(run)

    def name_language(self, source: str, target: str) -> None:
        """Let the root of a page of HTML name the target language if it names the source language."""
        named = re.compile(rf"""(\s(?:xml:)?lang\s*=\s*["']?){re.escape(source)}(?![^\W_])[\w-]*""", re.IGNORECASE)
        for n, part in enumerate(self._parts):
            if source and isinstance(part, str) and part[:5].lower() == "<html":
                self._parts[n] = named.sub(rf"\g<1>{target}", part)

    def fill(self, texts: Sequence[str]) -> str:
        """Return the page with a text in the place of each segment, in the same order."""
        done: list[str] = []
        for segment, text, inside in zip(self.segments, texts, self._inside, strict=True):
            if inside:
                new: dict[str, list[str]] = {}
                for old, parts in inside:
                    new.setdefault(old, []).append(_join(parts, done))
                text = _replace_each(text, new)
            if segment.kind == "unquoted" and not _UNQUOTED.fullmatch(text):
                text = f'"{text}"'
            done.append(text)
        return _join(self._parts, done)

    def _end(self, run: Sequence[tuple[Token, int]]) -> None:
        """Add the segment between two block tags, without what is at its edges."""
        tokens = [token for token, _ in run]
        if not any(map(_has_words, tokens)):
            self._parts += [part for token, line in run for part in self._divide(token, line)]
            return
        start, end = _inner(tokens)
        lead = tail = ""
        inside, lines = tokens[start:end], [line for _, line in run[start:end]]
        if inside[0].kind == "text":
            text = _LEAD.sub("", inside[0].text, count=1)
            lead = inside[0].text[: len(inside[0].text) - len(text)]
            inside[0] = inside[0]._replace(text=text)
        if inside[-1].kind == "text":
            text = inside[-1].text.rstrip()
            tail = inside[-1].text[len(text) :]
            inside[-1] = inside[-1]._replace(text=text)
        self._parts += [part for token, line in run[:start] for part in self._divide(token, line)]
        segment = Segment(inside, lines[0] + lead.count("\n"), self._syntax)
        self._parts += [lead, self._add(segment, lines), tail]
        self._parts += [part for token, line in run[end:] for part in self._divide(token, line)]

    def _add(self, segment: Segment, lines: Sequence[int], depth: int = 0) -> int:
        """Add a segment after those that are inside it, and return its number."""
        check_size(segment.tokens, segment.text)
        tokens = zip(segment.tokens, lines, strict=True)
        divided = [(token.text, self._divide(token, line, depth)) for token, line in tokens if token.kind != "text"]
        self._inside.append([(old, parts) for old, parts in divided if len(parts) > 1])
        self.segments.append(segment)
        return len(self.segments) - 1

    def _divide(self, token: Token, line: int, depth: int = 0) -> list[Part]:
        """Return the parts of a token: its attributes' values, or the texts of an ICU message, become segments."""
        parts: list[Part] = []
        at = 0
        for start, end, kind in self._spans(token) if depth < _MOST_NESTED else ():
            value = token.text[start:end]
            inner = [part for part in self._parse_inside(value, kind == "icu") if part.text]
            parts.append(token.text[at:start])
            at = end
            for _, group in groupby(inner, lambda part: part.name == _LINE_END):
                run = [*group]
                if any(map(_has_words, run)):
                    parts.append(self._add(Segment(run, line, self._syntax, kind), [line] * len(run), depth + 1))
                else:
                    parts += [part for one in run for part in self._divide(one, line, depth + 1)]
        return [*parts, token.text[at:]]

    def _parse_inside(self, value: str, icu: bool) -> list[Token]:
        """Return the tokens of an attribute's value, which has no tags, or of a text within an ICU message."""
        if not icu:
            tokens = parse_placeholders(value, self._syntax.placeholders, self._syntax.patterns)
            return keep_elements(tokens, (), self._syntax)
        tokens, at = [], 0
        # parsers do not see quoted text; an apostrophe is text
        masked = _ICU_QUOTED.sub(lambda match: match[0] if match[0] == "''" else MASK * len(match[0]), value)
        for token in self._syntax.parse(masked):
            content = value[at : at + len(token.text)]
            at += len(content)
            parts = _ICU_KEPT.split(content) if token.kind == "text" else []
            tokens += [
                Token("point", part, PLACEHOLDER) if n % 2 and part != "''" else Token("text", part)
                for n, part in enumerate(parts)
            ]
            tokens += [] if parts else [token._replace(text=content)]
        return keep_elements(tokens, (), self._syntax)

    def _spans(self, token: Token) -> Iterator[tuple[int, int, Literal["quoted", "unquoted", "icu"]]]:
        """Yield the characters of a token to translate, and what they are."""
        if token.name == ICU:
            for _, _, arms in icu_messages(token.text):
                yield from ((start, end, "icu") for start, end in arms)
        elif self._translated and token.kind in ("open", "point") and (tag := _start_tag(token)):
            for name, value, start, end in attributes(tag):
                if name in self._translated and value:
                    yield start, end, "quoted" if tag[start - 1] in "\"'" else "unquoted"


def _start_tag(token: Token) -> str:
    """Return the start tag of an element whose attributes may be translated; "" for anything else."""
    tag = _TAG.match(token.text)
    if tag is None or _is_kept(Token("open", tag[0]), frozenset()):
        return ""
    # of the elements that are kept as a whole, only a text area has one
    return tag[0] if tag.end() == len(token.text) or tag[0][1:9].lower() == token.name == "textarea" else ""


def _join(parts: Iterable[Part], texts: Sequence[str]) -> str:
    return "".join(texts[part] if isinstance(part, int) else part for part in parts)


def _has_words(token: Token) -> bool:
    return token.kind == "text" and any(map(str.isalpha, unescape(token.text)))


def _inner(tokens: Sequence[Token]) -> tuple[int, int]:
    """Return the first token of a segment and the one after its last: tags around all of the text are outside."""
    pairs, start, end = halves(tokens), 0, len(tokens)
    ends = {last: first for first, last in pairs.items()}
    while True:
        token, last = tokens[start], tokens[end - 1]
        if _is_outside(token) or (token.kind == "open" and not start < pairs.get(start, -1) < end):
            start += 1
        elif _is_outside(last) or (last.kind == "close" and not start <= ends.get(end - 1, -1) < end):
            end -= 1
        elif token.kind == "open" and pairs[start] == end - 1:
            start, end = start + 1, end - 1
        elif token.kind == "open" and not any(map(_is_inside, tokens[start : pairs[start]])):
            start = pairs[start] + 1
        elif last.kind == "close" and not any(map(_is_inside, tokens[ends[end - 1] : end])):
            end = ends[end - 1]
        elif token.kind == "close":
            start += 1
        elif last.kind == "open":
            end -= 1
        else:
            return start, end


def _is_inside(token: Token) -> bool:
    """Tell whether a token is text, or stands for something that a translation contains."""
    return bool(token.text.strip()) if token.kind == "text" else token.name in (KEPT, PLACEHOLDER, ICU)


def _is_outside(token: Token) -> bool:
    """Tell whether a token at the edge of a segment belongs to none: space, and tags without content."""
    return not _is_inside(token) and token.kind in ("text", "point")
