"""Repair the tags and placeholders of a translation whose translator has lost, damaged or doubled some.

Only what is certain changes: what is as in the source stays where it is, and a translation whose tags cannot be told
from its text is an error.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from html import escape, unescape
from itertools import accumulate
from typing import NamedTuple

from align.models.punctuation import closes
from align.transfer.inline import MAX_TAGS, pair_equal
from align.transfer.tags import (
    CODES,
    ICU,
    LETTER,
    PLACEHOLDER,
    Syntax,
    Token,
    icu_messages,
    parse_xml,
    same_arguments,
)
from align.transfer.tree import partners, spare_annotations, text_of

DEEPEST = 8  # limit of ICU messages within each other

_TOLERATED: dict[str, str] = {
    **{chr(code + 0xFEE0): chr(code).lower() for code in range(ord("!"), ord("~") + 1)},
    **dict.fromkeys("'“”„‟‘’‚«»＂＇", '"'),
    **dict.fromkeys(" \t\r\n", ""),
}
"""What a character of a damaged tag is compared as."""

_XML_TAG = re.compile(r"""<(/?)([A-Za-z_][\w:.-]*)(?:[^<>"']|"[^"<]*"|'[^'<]*')*>|<!--[^<]*?-->|<\?[^<]*?\?>""")
_BARE = re.compile(r"&(?!(?:#[0-9]{1,7}|#x[0-9A-Fa-f]{1,6}|[A-Za-z][\w.-]{0,80});)|<(?![A-Za-z_/!?])|\]\]>")
"""Marks that XML does not allow and that can only be text."""

_INCOMPLETE = re.compile(r"<[A-Za-z/!?]")
"""The beginning of a tag, in text of HTML: a browser takes all up to the next `>` as the tag."""

_WITH_TEXT = re.compile(r"""<[A-Za-z/](?:[^<>"']|"[^"]*"|'[^']*')*<|</[^\s>]+\s+[^\s>]""")
"""A tag that contains the beginning of another one, or words after the name in an end tag: both may be text."""

_NUMBER = re.compile(r"[0-9]+")
_PERCENTAGE = re.compile(r"%([0-9]+)(?![0-9$])")
_MARKS = re.compile(r"[^\w\s]*")
_ICU_KEY = re.compile(r"(=?[\w-]+)\s*\{\Z")
_ICU_LIKE = re.compile(r"\{\s*[\w.$-]{1,80}\s*,\s*(?:plural|select)", re.IGNORECASE)

_INCOMPLETE_TAG = "an incomplete tag in the translation"
_UNCERTAIN = "tags that cannot be told from the text of the translation"


class Repaired(NamedTuple):
    """A translation with only those tags and placeholders that its source has.

    Attributes:
        removed: tags and placeholders that were removed: extra ones, doubled ones, and halves of elements.
        rewritten: those that were damaged and are as in the source now, and marks that XML does not allow.
        unrepaired: what differs from the source and stays: native code, and placeholders of ICU messages.
        extra: placeholders that the source does not have and that stay, since they may be text.
        unsure: those that were removed, though it may be another one, elsewhere in the text, that is too many.
    """

    text: str
    removed: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()
    unrepaired: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()

    def lists(self) -> dict[str, tuple[str, ...]]:
        """Return what was done by its name in a report."""
        return {name: texts for name, texts in self._asdict().items() if name not in ("text", "unsure")}


class _Part(NamedTuple):
    """Characters of the target, and the token that they are; if they are damaged, the source's token."""

    start: int
    end: int
    token: Token


_Edit = tuple[int, int, str]  # start and end of characters of the target, and the text that takes their place


def repair_target(source: str, target: str, tags: str | Syntax) -> Repaired:
    """Remove or rewrite the tags and placeholders of a translation that are not as in its source.

    Those that differ in case, spaces, quotes or the width of characters, such as `% S`, `{ Name }` or `</ b>`, are
    rewritten. Missing ones are left to `align.transfer.inline`.

    Args:
        target: its translation, in which tags need not be balanced.

    Raises:
        ValueError: the source cannot be parsed, or tags of the target cannot be told from its text.
    """
    syntax = Syntax.of(tags)
    tokens = _collapse(syntax.parse(source))
    points = {_form(token) for token in tokens if token.kind == "point"}
    well_formed = True
    try:
        read = syntax.parse(target)
    except ValueError:
        if syntax.tags != "xml":
            raise
        read, well_formed = syntax.parse(target, _parse_loosely), False
    read = _collapse(read, points)
    ends = accumulate(len(token.text) for token in read)
    parts = [_Part(end - len(token.text), end, token) for token, end in zip(read, ends, strict=True)]
    tokens, theirs = same_arguments(tokens, [part.token for part in parts])
    parts = [part._replace(token=token) for part, token in zip(parts, theirs, strict=True)]
    for side in (tokens, [part.token for part in parts]):
        if sum(token.kind != "text" for token in side) > MAX_TAGS:
            raise ValueError(f"more than {MAX_TAGS:,} tags")
    unrepaired = [*_compare_messages(tokens, [part.token for part in parts], syntax)]
    matches = _match(tokens, [part.token for part in parts])
    if damaged := _find_damaged(tokens, parts, matches, target):
        parts = _merge(parts, damaged, target)
        matches = _match(tokens, [part.token for part in parts])
    source_text = text_of(tokens)
    plain, numbers = unescape(source_text), frozenset(_NUMBER.findall(source_text))
    kinds = {_kind(token.text) for token in tokens if token.name == PLACEHOLDER}
    edits: list[_Edit] = []
    left: list[str] = []
    removed: list[int] = []
    for n, (start, end, token) in enumerate(parts):
        text = target[start:end]
        if token.kind == "text":
            edits += () if well_formed else _escape_marks(text, start)
            continue
        if n not in matches:
            if token.name != PLACEHOLDER:  # removed, unless it is text of the source
                new = escape(token.text, quote=False) if token.text in plain else ""
            elif any(pattern.fullmatch(token.text) for pattern in syntax.patterns):
                new = ""
            else:  # of a syntax that the source does not use, it may be text, such as `%80` in Turkish
                percentage = _PERCENTAGE.match(token.text)
                is_text = percentage and percentage[1] in numbers
                new = token.text if is_text or _kind(token.text) not in kinds else ""
            left += [text] if new == text else []
            removed += [] if new else [n]
        else:
            new = tokens[matches[n]].text
            if token.text == text and not _is_damaged(new, token):
                unrepaired += [text] * (_code(new) != _code(text))
                new = text
        edits += [(start, end, new)] if new != text else []
    unsure = _which_of_equal([part.token for part in parts], matches, removed)
    repaired = _apply(edits, target)._replace(unrepaired=tuple(unrepaired), extra=tuple(left), unsure=unsure)
    _, result = same_arguments(tokens, _collapse(_parse_result(repaired.text, source, syntax), points))
    if not any(_is_incomplete(token, syntax) for token in tokens) and any(
        _is_incomplete(token, syntax) for token in (*(part.token for part in parts), *result)
    ):
        raise ValueError(_INCOMPLETE_TAG)
    there = _match(tokens, result)
    same = [Counter(tokens[n].identity for n in side.values()) for side in (matches, there)]
    if same[0] != same[1] or sum(token.kind != "text" for token in result) != len(there) + len(left):
        raise ValueError(_UNCERTAIN)
    return repaired


def _which_of_equal(tokens: Sequence[Token], matches: Collection[int], removed: Sequence[int]) -> tuple[str, ...]:
    """Return the tags that are removed while equal ones stay, with text between them."""
    gone = {tokens[n].identity for n in removed}
    sizes = (
        len("".join(token.text.split()))
        if token.kind == "text"
        else token.kind == "point" and token.identity not in gone
        for token in tokens
    )
    at = [0, *accumulate(sizes)]
    staying: dict[str, set[int]] = defaultdict(set)
    for n in matches:
        staying[tokens[n].identity].add(at[n])
    return tuple(tokens[n].text for n in removed if staying[tokens[n].identity] - {at[n]})


def missing_tags(source: str, target: str, tags: str | Syntax) -> tuple[str, ...]:
    """Return the tags and placeholders of a source that a translation lacks; all if that cannot be parsed."""
    syntax = Syntax.of(tags)
    tokens = _collapse(syntax.parse(source))
    points = {_form(token) for token in tokens if token.kind == "point"}
    try:
        tokens, theirs = same_arguments(tokens, _collapse(_parse_result(target, source, syntax), points))
        there = {*_match(tokens, theirs).values(), *spare_annotations(tokens, theirs)}
    except ValueError:
        there = set()
    return tuple(token.text for n, token in enumerate(tokens) if token.kind != "text" and n not in there)


def _parse_result(text: str, source: str, syntax: Syntax) -> list[Token]:
    """Return the tokens of a text, which has to be well-formed XML if its source is."""
    if syntax.tags == "xml" and syntax.has_placeholders:  # ICU messages hide what is in them
        try:
            parse_xml(source)
        except ValueError:
            pass
        else:
            parse_xml(text)
    return syntax.parse(text)


def _collapse(tokens: Sequence[Token], points: Collection[str] | None = None) -> list[Token]:
    """Make one token of both tags of an element without content: of each, or only of those in `points`."""
    result: list[Token] = []
    for token in tokens:
        token = token._replace(kind="point") if token.name[:2] == "#<" else token  # which may have lost its other half
        last = result[-1] if result else token
        is_empty = (last.kind, last.name, token.kind) == ("open", token.name, "close") and token.name[:1] != "#"
        if is_empty and (points is None or _form(last) in points):
            result[-1] = last._replace(kind="point", text=last.text + token.text)
        else:
            result.append(token)
    return result


def _form(token: Token) -> str:
    """Return what tags have in common that differ in damage, or in `<x></x>`, `<x>` and `<x/>`."""
    tag = _XML_TAG.match(token.text)
    return token.key or _canonical(tag[0] if tag else token.text)[0].replace("/>", ">")


def _match(source: Sequence[Token], target: Sequence[Token]) -> dict[int, int]:
    """Return the number of the source token for each tag and placeholder of the target that the source has.

    Of an element both tags match, or none. Tags without their other half match only such tags.
    """
    units = [*_units(source)], [*_units(target)]
    matches: dict[int, int] = {}
    identities: tuple[Callable[[Token], str], ...] = (lambda token: token.identity, _form)
    for identify in identities:
        used = {*matches.values()}
        sides = [
            [
                ((tokens[unit[0]].kind, *(identify(tokens[n]) for n in unit)), unit)
                for unit in side
                if unit[0] not in matched
            ]
            for tokens, side, matched in zip((source, target), units, (used, matches), strict=True)
        ]
        for ours, theirs in pair_equal(sides[0], sides[1]):
            matches.update(zip(theirs, ours, strict=True))
    used = {*matches.values()}
    alone = [unit[0] for unit in units[0] if len(unit) == 1 and unit[0] not in used]
    pairs = pair_equal(
        [(source[n].identity, n) for n in alone if source[n].kind != "point"],
        [(token.identity, m) for m, token in enumerate(target) if m not in matches and token.kind in ("open", "close")],
    )
    return matches | {m: n for n, m in pairs}


def _units(tokens: Sequence[Token]) -> Iterator[tuple[int, ...]]:
    """Yield the numbers of both tags of elements, and of tags and placeholders that stand alone."""
    pairs = partners(tokens)
    ends = set(pairs.values())
    for n, token in enumerate(tokens):
        if token.kind != "text" and n not in ends:
            yield (n, pairs[n]) if n in pairs else (n,)


def _parse_loosely(text: str) -> list[Token]:
    """Return the tokens of a text whose XML elements need not be balanced."""
    tokens: list[Token] = []
    at = 0
    for match in _XML_TAG.finditer(text):
        start, end = match.span()
        if start < at:
            continue
        if name := match[2]:
            is_code = name.rpartition(":")[2] in CODES
            if is_code and not match[1] and not match[0].endswith("/>"):
                end = text.find(f"</{name}>", end) + len(name) + 3
            token = _read_tag(text[start:end], name, match[1])
            if is_code and not token.key and token.kind != "point":
                raise ValueError(f"native code without an end: {match[0]}")
        else:
            token = Token("point", match[0])
        tokens += [Token("text", text[at:start]), token]
        at = end
    return [token for token in (*tokens, Token("text", text[at:])) if token.text]


def _read_tag(tag: str, name: str, closing: str) -> Token:
    """Return the token of a tag, or of native code with its tags."""
    if closing:
        return Token("close", tag, name)
    for text in (tag, f"{tag}</{name}>"):
        try:
            first, *others = parse_xml(text)
        except ValueError:
            continue
        if first.text in (tag, text) and [token.kind for token in others] in ([], ["close"]):
            return first._replace(text=tag, kind=first.kind if first.text == tag else "open")
    return Token("open", tag, name)


def _compare_messages(source: Sequence[Token], target: Sequence[Token], syntax: Syntax) -> Iterator[str]:
    """Compare the ICU messages of both sides; yield the placeholders and tags that a text of one lacks."""
    sides = [[token for token in tokens if token.name == ICU] for tokens in (source, target)]
    counts = [Counter(token.identity for token in side) for side in sides]
    for message in (counts[0] - counts[1]) or (counts[1] - counts[0]):
        raise ValueError(f"the ICU message `{message}` is not as in the source")
    if sides[0] and any(token.kind == "text" and _ICU_LIKE.search(token.text) for token in target):
        raise ValueError("an ICU message that is not complete")
    ours, theirs = ([(token.identity, token.text) for token in side] for side in sides)
    waiting = [(*texts, 1) for texts in pair_equal(ours, theirs)]
    while waiting:
        *texts, depth = waiting.pop()
        if depth > DEEPEST:
            raise ValueError(f"ICU messages that are more than {DEEPEST} deep")
        arms = [dict(_arms(text)) for text in texts]
        for key, text in arms[1].items():
            inner = [syntax.parse(part) for part in (arms[0].get(key, arms[0].get("other", "")), text)]
            identities = [Counter(token.identity for token in side if token.kind != "text") for side in inner]
            yield from (f"{missing} of {key}" for missing in identities[0] - identities[1])
            inside = [[token for token in side if token.name == ICU] for side in inner]
            waiting += [
                (one.text, other.text, depth + 1)
                for one in inside[0]
                for other in inside[1]
                if one.identity == other.identity
            ]


def _arms(message: str) -> Iterator[tuple[str, str]]:
    """Yield the keys and texts of an ICU message."""
    at = 0
    for start, end in next(icu_messages(message))[2]:
        key = _ICU_KEY.search(message, at, start)
        yield key[1] if key else "", message[start:end]
        at = end


def _canonical(text: str) -> tuple[str, list[int]]:
    """Return a text as damaged tags are compared: in small letters without spaces; and the offset of each character."""
    characters, offsets = [], []
    for n, character in enumerate(text):
        lower = character.lower()
        if same := _TOLERATED.get(character, lower if len(lower) == 1 else character):
            characters.append(same)
            offsets.append(n)
    return "".join(characters), offsets


def _find_damaged(tokens: Sequence[Token], parts: Sequence[_Part], matches: dict[int, int], target: str) -> list[_Part]:
    """Return what in the translation is a damaged tag or placeholder that it lacks otherwise."""
    there = set(matches.values())
    missing = [n for n, token in enumerate(tokens) if token.kind != "text" and n not in there]
    if not missing:
        return []
    spans = [(part, n in matches) for n, part in enumerate(parts) if part.token.kind != "text"]
    alone = Counter(part.token.identity for part, matched in spans if not matched)
    opened = {_form(part.token): part for part, matched in spans if not matched and part.token.kind == "open"}
    ends = [part.end for part, _ in spans]
    text, offsets = _canonical(target)
    damaged: list[_Part] = []
    positions: dict[str, int] = {}
    for n in missing:
        token, preceding = tokens[n], tokens[n - 1].text if n else ""
        if token.kind == "point" and (part := opened.pop(_form(token), None)):  # <x> for <x/>
            insort(damaged, part._replace(token=token))
            continue
        if alone[token.identity]:  # without its other half
            alone[token.identity] -= 1
            continue
        form, _ = _canonical(token.text)
        at = positions.get(form, 0)
        while (at := text.find(form, at)) >= 0:
            start, end = offsets[at], offsets[at + len(form) - 1] + 1
            at += 1
            if _is_apart(target, start, end, token.text, preceding) and _is_free(start, end, spans, ends, damaged):
                insort(damaged, _Part(start, end, token))
                break
        positions[form] = at if at >= 0 else len(text)
    return damaged


def _is_apart(target: str, start: int, end: int, text: str, preceding: str) -> bool:
    """Check that a damaged tag, `text` after `preceding` in the source, is no part of a word."""
    inside = target[start:end]
    before = target[max(0, start - 9) : start]
    if inside == text or (text[0].isalnum() and _is_of_word(before[-1:])):
        return False
    if _is_of_word(text[-1]) and (
        _is_of_word(target[end : end + 1]) or "\n" in inside or (text[0] in ":$" and len(inside.split()) > 1)
    ):
        return False
    marks = [side.rstrip(" \t\xa0\u202f")[-1:] for side in (before, preceding)]
    return text[0] != "%" or marks[0] == marks[1] or not (marks[0].isdigit() or marks[0] == "%")


def _is_of_word(character: str) -> bool:
    return re.fullmatch(LETTER, character) is not None


def _is_free(
    start: int, end: int, spans: Sequence[tuple[_Part, bool]], ends: Sequence[int], damaged: Sequence[_Part]
) -> bool:
    """Check that characters cut no tag, and contain none that is as in the source or belongs to another damaged one."""
    n = bisect_right(ends, start)
    while n < len(spans) and spans[n][0].start < end:
        part, matched = spans[n]
        if matched or part.start < start or part.end > end:
            return False
        n += 1
    k = bisect_left(damaged, end, key=lambda part: part.start)
    return not k or damaged[k - 1].end <= start


def _merge(parts: Sequence[_Part], damaged: Sequence[_Part], target: str) -> list[_Part]:
    """Return the tokens of a translation in which some are damaged."""
    starts = [part.start for part in damaged]
    own = []
    for part in parts:
        n = bisect_right(starts, part.start)
        if part.token.kind != "text" and not (n and damaged[n - 1].end > part.start):
            own.append(part)
    merged: list[_Part] = []
    at = 0
    for part in (*sorted((*own, *damaged)), _Part(len(target), len(target), Token("text", ""))):
        merged += [_Part(at, part.start, Token("text", target[at : part.start]))] if part.start > at else []
        merged.append(part)
        at = part.end
    return merged


def _is_incomplete(token: Token, syntax: Syntax) -> bool:
    """Check whether a tag has no end tag, or contains text for that reason."""
    if token.kind == "text":
        return syntax.tags == "html" and _INCOMPLETE.search(token.text) is not None
    return syntax.escaped and _WITH_TEXT.match(token.text) is not None


def _escape_marks(text: str, start: int) -> Iterator[_Edit]:
    """Yield the edits that make text of XML well-formed."""
    at = 0
    for match in (*_BARE.finditer(text), None):
        end = match.start() if match else len(text)
        if "<" in text[at:end]:
            raise ValueError(_INCOMPLETE_TAG)
        if match:
            yield start + end, start + match.end(), escape(match[0], quote=False)
            at = match.end()


def _kind(placeholder: str) -> str:
    """Return what placeholders of the same syntax have in common."""
    return "%1" if _PERCENTAGE.match(placeholder) else _MARKS.match(placeholder)[0]  # type: ignore[index]


def _is_damaged(text: str, token: Token) -> bool:
    """Check that a tag is to be rewritten; one with the same identifier is only if its native code is damaged."""
    if token.name == ICU or not token.key:
        return token.name != ICU
    codes = _code(text), _code(token.text)
    return codes[0] != codes[1] and (not codes[1] or _canonical(codes[0])[0] == _canonical(codes[1])[0])


def _code(text: str) -> str:
    """Return the native code of an inline element of XLIFF or TMX."""
    tag = _XML_TAG.match(text)
    return unescape(text[tag.end() :].rpartition("</")[0]) if tag else ""


def _apply(edits: Sequence[_Edit], target: str) -> Repaired:
    """Make the edits; remove a space before something removed if a space, a closing mark or nothing follows."""
    done, at, last = [""], 0, ""
    for start, end, text in edits:
        done += [target[at:start], text]
        last = next((part[-1] for part in (text, target[at:start]) if part), last)
        at = end
        if not text and last in ("", " ", "\t"):
            following = target[end : end + 1]
            if following in (" ", "\t"):
                at += 1
            elif last and (not following or closes(following)):
                n = next(n for n in reversed(range(len(done))) if done[n])
                done[n] = done[n][:-1]
                last = next((part[-1] for part in reversed(done[: n + 1]) if part), "")
    changed = [(target[start:end], text) for start, end, text in edits]
    return Repaired(
        "".join([*done, target[at:]]),
        tuple(before for before, text in changed if not text),
        tuple(before for before, text in changed if text),
    )
