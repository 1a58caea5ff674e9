"""Repair the tags and placeholders of a translation whose translator has lost, damaged or doubled some.

Only what is certain changes: what is as in the source stays where it is, and a translation whose tags cannot be told
from its text is an error.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from html import escape, unescape
from itertools import accumulate, pairwise
from typing import NamedTuple

from align.models.punctuation import closes
from align.transfer.inline import MAX_TAGS, match_by_x, pair_equal
from align.transfer.tags import (
    CODES,
    ICU,
    LETTER,
    MASK,
    PLACEHOLDER,
    VOID,
    XML_TAG,
    Syntax,
    Token,
    icu_messages,
    mixes_arguments,
    parse_xml,
    same_arguments,
)
from align.transfer.tree import partners, spare_annotations, text_of

DEEPEST = 8  # limit of ICU messages within each other

_TOLERATED: dict[str, str] = {
    **{chr(code + 0xFEE0): chr(code).lower() for code in range(ord("!"), ord("~") + 1)},
    **dict.fromkeys("'“”„‟‘’‚«»＂＇", '"'),
    **dict.fromkeys(" \t\r\n\xa0\u202f", ""),
}
"""What a character of a damaged tag is compared as."""

_CHARACTER = re.compile(
    r"(?:\\(?=[^\w\s\\]))?(?:&(?:amp;)*((?:lt|gt|quot|apos|#[0-9]{1,5}|#x[0-9A-Fa-f]{1,4});)|.)", re.DOTALL
)
"""A character of a text, perhaps after a backslash, or as an entity, perhaps an escaped one."""

_OPENING, _CLOSING = "(<{[⟦", ")>}]⟧"
_PARTNERS = dict(zip(_OPENING + _CLOSING, _CLOSING + _OPENING, strict=True))
_MARK = re.compile(r"[<>{}()\[\]⟦⟧%$#\\]")
_USED = "\0"  # stands for a character of a tag that is as in the source

SPELLED, EDITED, BETWEEN = range(3)
"""What is damaged: case, spaces and escapes; a character, or the marks around the name; the name between the marks."""

MAX_FORMS, MAX_LENGTH, MAX_MARKS = 200, 100, 4
"""Limits for damage beyond spelling: of different missing tags, of their characters, and of marks on each side."""

_STRAY = {mark: re.escape(mark) for mark in "{}[]⟦⟧$"}
_STRAY |= {"<": "<(?=/?[A-Za-z])", "%": r"(?<![0-9])(?<![0-9]\s)%(?!\s?[0-9]{2})"}
"""Marks that may be what is left of a tag that is missing otherwise."""

_BARE = re.compile(r"&(?!(?:#[0-9]{1,7}|#x[0-9A-Fa-f]{1,6}|[A-Za-z][\w.-]{0,80});)|<(?![A-Za-z_/!?])|\]\]>")
"""Marks that XML does not allow and that can only be text."""

_UNREAD = re.compile(r"<(?!/?[A-Za-z_]|!--[^<]*?-->|\?[^<]*?\?>)")
_INCOMPLETE = re.compile(
    r"""<(?=/?[A-Za-z])(?!/[A-Za-z][^\s<>]*\s*>"""
    r"""|[A-Za-z][^\s<>"'=/]*(?:\s+[^\s<>"'=/]+\s*=\s*(?:"[^"<]*"|'[^'<]*'|[^\s<>"']+))*\s*(?:/\s*)?>)"""
)
"""The beginning of a tag that has no end, or of one that may contain words of the text."""

_PERCENTAGE = re.compile(r"%([0-9]+)(?![0-9$])")
_WIDTH = re.compile(r"%(?:[0-9]+\$)?([-+#0]*)([1-9][0-9]*)?")
_ICU_KEY = re.compile(r"(=?[\w-]+)\s*\{\Z")
_ICU_LIKE = re.compile(r"\{\s*[\w.$-]{1,80}\s*,\s*(?:plural|select)", re.IGNORECASE)


class Repaired(NamedTuple):
    """A translation with only those tags and placeholders that its source has."""

    text: str
    removed: tuple[str, ...] = ()  # tags and placeholders: extra ones, doubled ones, and halves of elements
    rewritten: tuple[str, ...] = ()  # damaged ones, now as in the source, and marks that XML does not allow
    unrepaired: tuple[str, ...] = ()  # differs and stays: native code, ICU messages; or all that is missing
    extra: tuple[str, ...] = ()  # placeholders unknown to the source that stay, as they may be text
    unsure: tuple[str, ...] = ()  # those removed, though another one, elsewhere in the text, may be too many
    certain: bool = True  # whether the tags can be told from the text; if not, `text` is as it was


_Span = tuple[int, int]
_Edit = tuple[int, int, str]  # start and end of characters of the target, and the text that takes their place


def repair_target(source: str, target: str, tags: str | Syntax) -> Repaired:
    """Remove or rewrite the tags and placeholders of a translation that are not as in its source.

    Damaged ones are written as in the source where they stand; a translation in which several could be meant stays as
    it is. Missing ones are left to `align.transfer.inline`.

    Args:
        target: its translation, in which tags need not be balanced.

    Raises:
        ValueError: the source cannot be parsed.
    """
    syntax = Syntax.of(tags)
    tokens = _collapse(syntax.parse(source))
    try:
        repaired = _repair(source, tokens, target, syntax, MAX_MARKS)
        if repaired.text != target and _repair(source, tokens, repaired.text, syntax, MAX_MARKS).text != repaired.text:
            raise ValueError
        return repaired
    except ValueError as error:
        wrong = missing_tags(source, target, syntax) or (str(error) or target,)
        return Repaired(target, unrepaired=wrong, certain=False)


def _repair(source: str, tokens: list[Token], target: str, syntax: Syntax, rounds: int) -> Repaired:
    """Repair a translation: rewrite what is damaged, read the result, and remove what is not of the source."""
    edits, unrepaired = compare_messages(source, target, syntax)
    points = {_form(token) for token in tokens if token.kind == "point"}
    own = tuple(token.text for token in tokens if token.kind != "text" and _INCOMPLETE.match(token.text))
    masked = _INCOMPLETE.sub(lambda mark: "<" if target.startswith(own, mark.start()) else MASK, target)
    try:
        read, well_formed = syntax.parse(masked if syntax.tags else target), True
    except ValueError:
        read, well_formed = syntax.parse(_UNREAD.sub(MASK, masked), check=False), False
    read = _collapse(read, points)
    at = [*pairwise([0, *accumulate(len(token.text) for token in read)])]
    read = [token._replace(text=target[start:end]) for token, (start, end) in zip(read, at, strict=True)]
    ours, read = _same_arguments(tokens, read)
    if any(sum(token.kind != "text" for token in side) > MAX_TAGS for side in (ours, read)):
        raise ValueError(f"more than {MAX_TAGS:,} tags")
    matches = _match(ours, read)
    parts = [(*span, token) for token, span in zip(read, at, strict=True)]
    for m, (start, end, token) in enumerate(parts):  # `%p` of `%portal` is text
        is_glued = _is_of_word(token.text[-1]) and _is_of_word(target[end : end + 1])
        if m not in matches and token.name == PLACEHOLDER and token.text[0] == "%" and is_glued:
            parts[m] = start, end, Token("text", token.text)
    if rounds and (edits := edits or _mend(ours, parts, matches, target)):
        mended = _apply(sorted(edits), target)
        rest = _repair(source, tokens, mended.text, syntax, rounds - 1)
        return rest._replace(removed=mended.removed + rest.removed, rewritten=mended.rewritten + rest.rewritten)
    source_text = text_of(ours)
    plain, numbers = unescape(source_text), {*re.findall("[0-9]+", source_text)}
    kinds = {_kind(token.text) for token in ours if token.name == PLACEHOLDER}
    is_mixed = mixes_arguments(read) and not mixes_arguments(ours)
    left: list[str] = []
    gone: list[int] = []
    for m, (start, end, token) in enumerate(parts):
        text = token.text
        if token.kind == "text":
            bare = [] if well_formed else [(mark.span(), escape(mark[0], quote=False)) for mark in _BARE.finditer(text)]
            edits += [(start + a, start + b, new) for (a, b), new in bare]
            continue
        if m in matches:
            new = ours[matches[m]].text
            if not _is_damaged(new, token, is_mixed):
                unrepaired += [text] * (_code(new) != _code(text))
                new = text
            if _is_of_word(text[-1]) and target[end : end + 1] == text[-1] and text + text[-1] not in source:
                unrepaired += [text + text[-1]]  # `%ss`, which may be `%s` and a letter
        elif token.kind != "point" and token.name.rpartition(":")[2] in CODES:  # a half of native code
            raise ValueError
        else:
            if token.name != PLACEHOLDER:  # removed, unless it is text of the source
                new = escape(text, quote=False) if text in plain else ""
            elif any(pattern.fullmatch(text) for pattern in syntax.patterns):
                new = ""
            else:  # of a syntax that the source does not use, it may be text, such as `%80` in Turkish
                percentage = _PERCENTAGE.match(text)
                is_text = percentage and percentage[1] in numbers
                new = text if is_text or _kind(text) not in kinds else ""
            left += [text] if new == text else []
            gone += [] if new else [m]
        edits += [(start, end, new)] if new != text else []
    there = {*matches.values()}
    shown = _texts(token._replace(kind="text") if token.text in left else token for *_, token in parts)
    lost = [x.text for n, x in enumerate(ours) if x.kind != "text" and (rounds < MAX_MARKS or n not in there)]
    texts = [unescape(unescape(side)) for side in (_texts(ours), shown)]
    unrepaired += ["%%"] * (texts[0].count("%%") > texts[1].count("%%"))
    marks = {mark for text in lost for mark in text if mark in _STRAY}
    missing = (x.text for n, x in enumerate(ours) if x.name == PLACEHOLDER and n not in there)
    names = {re.sub(r"%\((\w+)\)\w*|\$", r"\1", text).strip("{}[]()⟦⟧<>%#@: ") for text in missing}
    names = {name for name in names if name[2:] or not name.isalpha() or name in ("s", "d", "ld", "lu", "id")}
    for mark in marks | names - {""}:
        stray = re.compile(_STRAY.get(mark, rf"(?<![\w.,'’]){re.escape(mark)}(?![\w'’]|[.,]\w)"))
        if len(stray.findall(texts[0])) < len(stray.findall(texts[1])):
            if not mark.isalpha() or mark == "d":  # others may be words
                raise ValueError
            unrepaired.append(mark)
    unsure = _which_of_equal(read, matches, gone)
    repaired = _apply(edits, target)._replace(unrepaired=tuple(unrepaired), extra=tuple(left), unsure=unsure)
    result = _collapse(_parse_result(repaired.text, source, syntax), points)
    is_whole = sum(token.kind != "text" for token in result) == len(matches) + len(left)
    if not is_whole or (syntax.tags == "html" and _INCOMPLETE.search(shown) and not _INCOMPLETE.search(_texts(ours))):
        raise ValueError
    return repaired


def _texts(tokens: Iterable[Token]) -> str:
    """Return a line whose tags are masked."""
    return "".join(token.text if token.kind == "text" else _USED * len(token.text) for token in tokens)


def _which_of_equal(tokens: Sequence[Token], matches: Collection[int], removed: Sequence[int]) -> tuple[str, ...]:
    """Return the tags that are removed while equal ones stay, with text between them."""
    gone = {tokens[n].identity for n in removed}
    kept = (
        token.text if token.kind == "text" else "x" * (token.kind == "point" and token.identity not in gone)
        for token in tokens
    )
    at = [0, *accumulate(len("".join(text.split())) for text in kept)]
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
        tokens, theirs = _same_arguments(tokens, _collapse(_parse_result(target, source, syntax), points))
        there = {*_match(tokens, theirs).values(), *spare_annotations(tokens, theirs)}
    except ValueError:
        there = set()
    return tuple(token.text for n, token in enumerate(tokens) if token.kind != "text" and n not in there)


def _same_arguments(source: Sequence[Token], target: Sequence[Token]) -> tuple[list[Token], list[Token]]:
    """Give what has the same number one identity, but not to `%1s`, which is `%1$s` without its dollar sign."""
    ours, theirs = match_by_x(*same_arguments(source, target))
    wrong = {token.text.replace("$", "", 1) for token in ours if token.name == PLACEHOLDER and "$" in token.text}
    return ours, [token._replace(key="") if token.text in wrong else token for token in theirs]


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
    tag = XML_TAG.match(token.text)
    return token.key or _canonical(tag[0] if tag else token.text)[0].replace("/>", ">")


def _match(source: Sequence[Token], target: Sequence[Token]) -> dict[int, int]:
    """Return the source token for each tag and placeholder of the target; of an element both tags match, or none."""
    paired = [partners(side) for side in (source, target)]
    matches: dict[int, int] = {}
    for by_form in (False, True):
        sides: list[list[tuple[tuple[str, ...], tuple[int, ...]]]] = []
        for tokens, pairs, known in zip((source, target), paired, ({*matches.values()}, matches), strict=True):
            skipped = {*pairs.values(), *known}
            first = (n for n, token in enumerate(tokens) if token.kind != "text" and n not in skipped)
            units = [(n, pairs[n]) if n in pairs else (n,) for n in first]
            forms = ([_form(tokens[n]) if by_form else tokens[n].identity for n in unit] for unit in units)
            sides.append([((tokens[unit[0]].kind, *form), unit) for form, unit in zip(forms, units, strict=True)])
        for ours, theirs in pair_equal(sides[0], sides[1]):
            matches.update(zip(theirs, ours, strict=True))
    # a tag of the source without its other half matches any equal one that is left
    known = {*matches.values(), *paired[0], *paired[0].values()}
    lone = [
        [(token.identity, n) for n, token in enumerate(tokens) if token.kind in ("open", "close") and n not in skipped]
        for tokens, skipped in ((source, known), (target, matches))
    ]
    return matches | {m: n for n, m in pair_equal(lone[0], lone[1])}


def compare_messages(source: str, target: str, syntax: Syntax) -> tuple[list[_Edit], list[str]]:
    """Return what restores translated keywords of ICU messages, and the placeholders and tags that a text lacks."""
    sides = [_messages(text) if syntax.placeholders else [] for text in (source, target)]
    if Counter(head for head, _ in sides[0]) != Counter(head for head, _ in sides[1]):
        raise ValueError
    bounds = [0, *(at for _, (text, start) in sides[1] for at in (start, start + len(text))), len(target)]
    if sides[0] and any(_ICU_LIKE.search(target[a:b]) for a, b in zip(bounds[::2], bounds[1::2], strict=True)):
        raise ValueError
    edits: list[_Edit] = []
    unrepaired: list[str] = []
    waiting = [(ours, theirs, at, 1) for (ours, _), (theirs, at) in pair_equal(sides[0], sides[1])]
    while waiting:
        *messages, offset, depth = waiting.pop()
        if depth > DEEPEST:
            raise ValueError(f"ICU messages that are more than {DEEPEST} deep")
        ours, theirs = ([*_arms(message)] for message in messages)
        keys, names = [arm[0] for arm in ours], [arm[0] for arm in theirs]
        is_select = Token("point", messages[0], ICU).identity.endswith(",select,")
        allowed = keys if is_select else ("zero", "one", "two", "few", "many", "other")
        wrong = [k for k, name in enumerate(names) if name not in allowed and name[:1] != "="]
        lost = [k for k, key in enumerate(keys) if key not in names]
        if "other" in keys and "other" not in names and len(wrong) == 1:
            lost = [keys.index("other")]
        elif (wrong or "other" not in names) and (len(wrong) != len(lost) or (len(lost) > 1 and wrong != lost)):
            raise ValueError(names[wrong[0]] if wrong else "other")
        for k, n in zip(wrong, lost, strict=False):
            names[k], start = keys[n], offset + theirs[k][1]
            edits.append((start, start + len(theirs[k][0]), keys[n]))
        texts = {key: messages[0][start:end] for key, _, start, end in ours}
        for name, (_, _, start, end) in zip(names, theirs, strict=True):
            both = texts.get(name, texts.get("other", "")), messages[1][start:end]
            inner = [Counter(token.identity for token in syntax.parse(text) if token.kind != "text") for text in both]
            unrepaired += (f"{missing} of {name}" for missing in inner[0] - inner[1])
            is_needed = not is_select and (name in texts or name in allowed[3:])
            unrepaired += [f"# of {name}"] * (is_needed and "#" in both[0] and "#" not in both[1])
            for (one, _), (other, at) in pair_equal(_messages(both[0]), _messages(both[1])):
                waiting.append((one, other, offset + start + at, depth + 1))
    return edits, unrepaired


def _messages(text: str) -> list[tuple[str, tuple[str, int]]]:
    """Return what identifies each ICU message of a text, and the message with its offset."""
    return [(Token("point", text[a:b], ICU).identity, (text[a:b], a)) for a, b, _ in icu_messages(text)]


def _arms(message: str) -> Iterator[tuple[str, int, int, int]]:
    """Yield the keys of an ICU message and where they begin, and where their texts begin and end."""
    at = 0
    for start, end in next(icu_messages(message))[2]:
        key = _ICU_KEY.search(message, at, start)
        yield (key[1], key.start(), start, end) if key else ("", start, start, end)
        at = end


def _canonical(text: str) -> tuple[str, list[_Span]]:
    """Return a text as damaged tags are compared, in small letters without spaces and escapes; and where each is."""
    characters, spans = [], []
    for match in _CHARACTER.finditer(text):
        character = unescape(f"&{match[1]}") if match[1] else match[0][-1]
        lower = character.lower()
        if same := _TOLERATED.get(character, lower if len(lower) == 1 else character):
            characters.append(same)
            spans.append(match.span())
    return "".join(characters), spans


def _mend(
    tokens: Sequence[Token], parts: Sequence[tuple[int, int, Token]], matches: dict[int, int], target: str
) -> list[_Edit]:
    """Return the edits that write damaged tags and placeholders as in the source, and remove halves of elements."""
    read = [token for *_, token in parts]
    line, shown = _texts(tokens), _texts(read)
    more = Counter(_MARK.findall(shown)) - Counter(line)
    sides = [
        [((token.kind, token.identity), n) for n, token in enumerate(side) if token.kind != "text" and n not in there]
        for side, there in ((tokens, {*matches.values()}), (read, matches))
    ]
    used = matches | {m: n for n, m in pair_equal(sides[0], sides[1])}  # also those without their other half
    for m, (start, end, token) in enumerate(parts):
        first, last = shown[start - 1 : start], shown[end : end + 1]
        if (more[first] > 0 and first in ("\\", token.text[0])) or (more[last] > 0 and last == token.text[-1]):
            used.pop(m, None)  # with a doubled mark, or a backslash
    there = {*used.values()}
    missing: dict[str, list[int]] = defaultdict(list)  # by their forms
    for n, token in enumerate(tokens):
        if token.kind != "text" and n not in there and (form := _canonical(token.text)[0]):
            missing[form].append(n)
    if not missing:
        return []
    masked = _texts(token if m in used else token._replace(kind="text") for m, token in enumerate(read))
    (ours, _), (text, spans) = _canonical(line), _canonical(masked)
    starts = [start for start, _ in spans]
    unknown = [part for m, part in enumerate(parts) if m not in used and part[2].kind != "text"]
    foreign = [(bisect_left(starts, start), bisect_left(starts, end), _nature(token)) for start, end, token in unknown]
    inside = {at for a, b, _ in foreign for at in range(a + 1, b)}
    found: list[tuple[int, int, int, int]] = []
    for rank in (SPELLED, EDITED, BETWEEN)[: 3 if len(missing) <= MAX_FORMS else 1]:
        more = Counter(_MARK.findall(text)) - Counter(ours)
        claims: dict[_Span, set[str]] = defaultdict(set)
        for form, numbers in missing.items():
            token, nature = tokens[numbers[0]], _nature(tokens[numbers[0]])
            places = [(a, b) for a, b, other in foreign if rank == BETWEEN and other == nature]
            for pattern in filter(None, _patterns(rank, form, token.text)):
                matched = [match.span() for match in re.finditer(pattern, text)]
                if pattern.isalnum() or len(matched) > len(re.findall(pattern, ours)):  # not as text of the source
                    places += (_grow(text, span, form, more) for span in matched) if rank == EDITED else matched
            for a, b in places:
                is_free = a < b and not {a, b} & inside and _USED not in text[a:b]
                if is_free and _is_apart(target, spans[a][0], spans[b - 1][1], tokens, numbers[0], rank):
                    claims[a, b].add(form)
        covered, own = bytearray(len(text)), defaultdict[str, list[_Span]](list)
        for (a, b), forms in sorted(claims.items(), key=lambda claim: (claim[0][0] - claim[0][1], claim[0])):
            if not any(covered[a:b]):
                covered[a:b] = b"\1" * (b - a)
                for form in forms:
                    own[form] += [(a, b)] * (1 if len(forms) == 1 else len(tokens))  # too often if of several
        for form, places in own.items():
            is_several = len(places) > len(missing[form])
            if is_several and (rank == EDITED or form in ours):
                raise ValueError
            for a, b in [] if is_several and rank else sorted(places)[: len(missing[form])]:
                text = text[:a] + _USED * (b - a) + text[b:]
                found.append((spans[a][0], spans[b - 1][1], missing[form].pop(0), rank))
        missing = {form: numbers for form, numbers in missing.items() if numbers}
    there = {*used.values(), *(n for _, _, n, _ in found)}
    halves = {half: other for pair in partners(tokens).items() for half, other in (pair, pair[::-1])}
    texts = ["", *(token.text for token in tokens), ""]
    edits: list[_Edit] = []
    for start, end, n, rank in sorted(found):
        is_half, bounds = halves.get(n, n) not in there, (edits[-1][1] if edits else 0, start, end)
        if is_half and rank == EDITED:
            raise ValueError
        new = _respace(target, bounds, tokens[n].text, (texts[n][-1:], texts[n + 2][:1]))
        edits.append((start, end, "") if is_half else new)
    return edits


def _patterns(rank: int, form: str, tag: str) -> Iterator[str]:
    """Yield regular expressions of what a tag of this form may be like with damage of this rank."""
    core = name[1] if (name := re.match(r"%\((.+)\)", form)) else form.strip("".join((*_PARTNERS, "%$#/")))
    left, _, right = form.partition(core) if core else (form, "", "")
    if rank == SPELLED:
        yield re.escape(form)
    elif rank == EDITED:
        bare = re.escape("/" * ("/" in left) + core + "/" * ("/" in right))
        yield from {bare, re.sub(r"^([0-9]+)\\\$", r"\\$\1", bare)} if core else ()
        if len(form) <= MAX_LENGTH:
            edits = {form[: k + step] + form[k + 1 - step :] for k in range(len(form)) for step in (0, 1)}
            yield from {*map(re.escape, edits)} - {bare}
    elif rank == BETWEEN:
        if head := re.match(r"(</?)[\w:.-]+", tag):
            left, right = head[1], form[len(head[0]) :]
        if left and right:
            yield re.escape(left) + r"[^<>{}()\[\]⟦⟧%$#/\0]{0,80}" + re.escape(right)


def _grow(text: str, span: _Span, form: str, more: Counter[str]) -> _Span:
    """Add marks that touch a part of a damaged tag and of which there are `more` than in the source; (0, 0) if none."""
    a, b = first, last = span
    is_lost, opening = (text[a] != form[0], text[b - 1] != form[-1]), _OPENING[form[0] == "<" :]  # `(b)` is text
    for _ in range(MAX_MARKS if any(is_lost) else 0):
        before, behind, rest = text[a - 1 : a], text[b : b + 1], more - Counter(text[a:b])
        is_pair = before in opening and _PARTNERS.get(before) == behind and rest[before] > 0 and rest[behind] > 0
        is_first = before in f"{_OPENING}%$#" and rest[before] > rest[_PARTNERS.get(before, "")]
        is_last = behind in _CLOSING and rest[behind] > rest[_PARTNERS.get(behind, "")]
        a, b = a - (is_pair or (is_lost[0] and is_first)), b + (is_pair or (is_lost[1] and is_last))
    marks = {*_PARTNERS, *"%$#", *(mark for mark in form[0] + form[-1] if not mark.isalnum()), *"."[: form[0] == "%"]}
    return (a, b) if {*text[a:b]} & {*form} & marks or a < first <= last < b else (0, 0)


def _is_apart(target: str, start: int, end: int, tokens: Sequence[Token], n: int, rank: int) -> bool:
    """Check that what may be the source's token `n` is no part of a word, and no word or percentage."""
    inside, before, behind = target[start:end], target[max(0, start - 9) : start], target[end : end + 1]
    preceding, following = tokens[n - 1].text if n else "", "".join(token.text for token in tokens[n + 1 : n + 2])[:1]
    is_torn = len(inside.split()) > len(tokens[n].text.split())
    is_glued = [rank != SPELLED and not is_torn and _is_of_word(side) for side in (preceding[-1:], following)]
    is_text = rank == BETWEEN and is_torn and tokens[n].text[0] == "<"  # words, not a name
    if is_text or inside == tokens[n].text or (_is_of_word(inside[0]) and _is_of_word(before[-1:]) and not is_glued[0]):
        return False
    is_parted = is_torn and inside[0] in ":$" and _is_of_word(before[-1:])
    if _is_of_word(inside[-1]) and ((_is_of_word(behind) and not is_glued[1]) or "\n" in inside or is_parted):
        return False
    marks = [side.rstrip(" \t\xa0\u202f")[-1:] for side in (before, preceding)]
    return tokens[n].text[0] != "%" or marks[0] == marks[1] or not (marks[0].isdigit() or marks[0] == "%")


def _respace(target: str, bounds: tuple[int, int, int], text: str, sides: tuple[str, str]) -> _Edit:
    """Return the edit that writes a damaged tag between `sides`, with their spaces where damage has changed them."""
    first, start, end = bounds
    forms = _canonical(text)[0], _canonical(target[start:end])[0]
    is_torn = len(target[start:end].split()) > len(text.split())
    gaps = []
    for k, near in enumerate((target[max(first, start - 9) : start][::-1], target[end : end + 9])):
        spaces, side = len(near) - len(near.lstrip()), sides[k]
        beyond = near[spaces : spaces + 1]
        if (is_torn or forms[0][-k] != forms[1][-k]) and beyond and (beyond == side or (beyond + side).isalnum()):
            gaps.append(spaces if side else 0)
        else:
            gaps.append(-(is_torn and near[:1].isalnum() and side.isspace()))
    return start - max(gaps[0], 0), end + max(gaps[1], 0), " " * -gaps[0] + text + " " * -gaps[1]


def _is_of_word(character: str) -> bool:
    return re.fullmatch(LETTER, character) is not None


def _kind(placeholder: str) -> str:
    """Return what placeholders of the same syntax have in common."""
    return "%1" if _PERCENTAGE.match(placeholder) else re.split(r"[\w\s]", placeholder, maxsplit=1)[0]


def _nature(token: Token) -> tuple[str, ...]:
    """Return what tags, or placeholders, have in common that differ in their names only."""
    name = token.name if token.name in VOID or token.name == PLACEHOLDER else ""
    return token.kind, _kind(token.text), name, _code(token.text)


def _is_damaged(text: str, token: Token, is_mixed: bool) -> bool:
    """Check that a tag of the target is to be rewritten as in the source; the number of an argument may differ."""
    if token.name == ICU or not token.key:
        return token.name != ICU
    if token.name == PLACEHOLDER:
        ours, theirs = (_WIDTH.sub(lambda head: f"{head[1]}{bool(head[2])}", side) for side in (text, token.text))
        return is_mixed or ours.replace("i", "d") != theirs.replace("i", "d")
    codes = _code(text), _code(token.text)
    if codes[0] != codes[1]:
        return not codes[1] or _canonical(codes[0])[0] == _canonical(codes[1])[0]
    return " x " not in token.key and token.key[0] != "@"  # whose `i` may be another; annotations have own identifiers


def _code(text: str) -> str:
    """Return the native code of an inline element of XLIFF or TMX."""
    tag = XML_TAG.match(text)
    return unescape(text[tag.end() :].rpartition("</")[0]) if tag else ""


def _apply(edits: Sequence[_Edit], target: str) -> Repaired:
    """Make the edits; remove a space before something removed if a space, a closing mark or nothing follows."""
    done, at = "", 0
    for start, end, text in edits:
        done += target[at:start] + text
        following, at = target[end : end + 1], end
        if not text and done[-1:] in ("", " ", "\t"):
            if following in (" ", "\t"):
                at += 1
            elif done and (not following or closes(following)):
                done = done[:-1]
    changed = [(target[start:end], text) for start, end, text in edits]
    removed, rewritten = (tuple(before for before, text in changed if bool(text) == kept) for kept in (False, True))
    return Repaired(done + target[at:], removed, rewritten)
