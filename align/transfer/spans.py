"""Project labels of character ranges, as annotation tools write them in JSON lines, onto a translation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from align.core.errors import show_value
from align.core.formats import to_json
from align.core.text import split_words
from align.core.types import Pair
from align.transfer.labels import Span, layers
from align.transfer.lines import Links, Placed
from align.transfer.markup import Placement, place_markup
from align.transfer.tags import Syntax, Token, find_words, markup_of
from align.transfer.windows import Scores

SPANS = "spans"

LISTS = ("labels", "label", "entities", "spans")  # keys of the list of labels in annotation tools

EDGES = (("start_offset", "end_offset"), ("start", "end"))
"""Keys of start and end of a label that is an object, in doccano, and in spaCy and Prodigy."""

_OF_TOKENS = ("tokens", "token_start", "token_end")
"""Prodigy's keys for the words of a text, which do not apply to a translation."""

TARGET = "target"

_BREAKS = str.maketrans("\n\r", "  ")


class Annotated(NamedTuple):
    """A text with labels, and its translation, used as `align.transfer.lines.TaggedLine`."""

    pair: Pair
    plain: str  # the text in one line; each word stays at its offset
    labels: Sequence[tuple[int, int, str]]  # begin, end (excluded), label: characters from 0; in line order
    record: Mapping[str, Any]  # the whole JSON object, whose key `name` has the labels; empty for a blank line
    name: str
    target: str

    def divided(self, pair: Pair, scores: Links) -> tuple[Annotated, Links]:
        """Return the line in the words of a pair; their target is the translation if there is none yet."""
        return self._replace(pair=pair, target=self.target or " ".join(pair.target)), scores

    def spans(self) -> list[Span]:
        """Return the words that each label overlaps; (0, 0) without any."""
        words, spans = find_words(self.pair.source, self.plain, False), []
        for begin, end, label in self.labels:
            inside = [n for n, (first, after) in enumerate(words) if first < end and begin < after]
            spans.append((label, (inside[0], inside[-1] + 1) if inside else (0, 0)))
        return spans

    def place(self, scores: Links) -> Placed:
        """Return the line of the translation, and where each label is.

        It is the record of its source, without `target` and token counts. Labels without a target are left out,
        and relations that do not join two of the others by their ids.
        """
        source, target = " ".join(self.pair.source), self.target.translate(_BREAKS)
        words = [find_words(*side, False) for side in ((self.pair.source, self.plain), (self.pair.target, target))]
        table = Scores(scores, *map(len, words))
        report, places = dict[int, Placement](), dict[int, tuple[int, int]]()
        for layer in layers([label[:2] for label in self.labels]):
            tokens, at = list[Token](), 0
            for n in layer:
                begin, end, kind = self.labels[n]
                tokens += Token("text", self.plain[at:begin]), Token("open", kind, str(n))
                tokens += Token("text", self.plain[begin:end]), Token("close", "", str(n))
                at = end
            markup = markup_of([*tokens, Token("text", self.plain[at:])], Syntax("", False)).with_words(words[0])
            markup.root.words = (-1, len(words[0]))  # no label is all of a text
            insertions, rows = place_markup(markup, target, words[1], table)
            offsets = {number: offset for offset, number, _ in insertions}
            for numbers, placement in rows:
                first = min(numbers)
                places[layer[first // 4]] = begin, end = offsets[first], offsets[first + 2]
                report[layer[first // 4]] = placement._replace(target=placement.target if begin < end else ())
        in_order = [report[n] for n in range(len(self.labels))]
        if not self.record:
            return Placed("", in_order, source)
        labels: list[Any] = []
        for n, (label, (begin, end, kind)) in enumerate(zip(self.record[self.name], self.labels, strict=True)):
            if not report[n].target:
                continue
            text, (begin, end) = self.record["text"][begin:end], places[n]
            if isinstance(label, dict):
                label = label | dict(zip(_edges_of(label), (begin, end), strict=True))
                if label.get("text") == text:
                    label["text"] = self.target[begin:end]
                labels.append({key: value for key, value in label.items() if key not in _OF_TOKENS})
            else:
                labels.append([begin, end, kind])
        left_out = (TARGET, *(_OF_TOKENS if self.name == "spans" else ()))
        rest = {key: value for key, value in self.record.items() if key not in left_out}
        if isinstance(relations := rest.get("relations"), list):
            ids = [label["id"] for label in labels if isinstance(label, dict) and "id" in label]
            rest["relations"] = [
                relation
                for relation in relations
                if isinstance(relation, dict) and all(relation.get(key) in ids for key in ("from_id", "to_id"))
            ]
        return Placed(to_json({**rest, "text": self.target, self.name: labels}), in_order, source)


def _edges_of(label: Mapping[str, Any]) -> tuple[str, str]:
    """Return the keys of start and end in a label that is an object."""
    return next((edges for edges in EDGES if edges[0] in label), EDGES[0])


def read_annotated(line: str, target: str | None = None, number: int = 1) -> Annotated:
    """Read `{"text": ..., "labels": [[begin, end, label], ...]}`, perhaps with `target`; or a blank line.

    A label may also be an object, with the keys `label` and those of EDGES.

    Args:
        target: the translation; None for that of the line itself.

    Raises:
        ValueError: the line is something else, or a label has no word.
    """
    if not line.strip(" \t"):
        return Annotated(Pair((), split_words(target or ""), number), "", (), {}, "", target or "")
    try:
        record = json.loads(line)
        text, own = record["text"], record.get(TARGET)
        f"{text}{own}".encode()
        to_json(record)
        is_valid = isinstance(text, str) and isinstance(own, str | None)
    except (ValueError, RecursionError, TypeError, LookupError):
        is_valid = False
    if not is_valid:
        raise ValueError('not a JSON object with a valid "text" and "labels": [[0, 4, "PER"], ...]')
    names = [name for name in LISTS if isinstance(record.get(name), list)]  # Prodigy's "label" is none
    if len(names) != 1:
        found = " and ".join(names) or "none"
        raise ValueError(f"expected one list of labels, named {', '.join(LISTS)}; got {found}")
    target = own if target is None else target
    labels = [_read_label(label, text) for label in record[names[0]]]
    plain, translation = (side.translate(_BREAKS) for side in (text, target or ""))
    pair = Pair(split_words(plain), split_words(translation), number)
    annotated = Annotated(pair, plain, labels, record, names[0], target or "")
    for (begin, end, _), (_, window) in zip(labels, annotated.spans(), strict=True):
        if window == (0, 0):
            raise ValueError(f"no word at characters {begin} to {end}")
    if target is None:
        raise ValueError(f'no "{TARGET}" with the text')
    return annotated


def _read_label(label: Any, text: str) -> tuple[int, int, str]:
    example: Any = [0, 4, "PER"]
    if isinstance(label, Mapping):
        edges = _edges_of(label)
        example = {edges[0]: 0, edges[1]: 4, "label": "PER"}
        label = [label.get(key) for key in (*edges, "label")]
    if not isinstance(label, list) or [type(value) for value in label] != [int, int, str]:
        found = ", ".join(map(show_value, label[:3])) if isinstance(label, list) else show_value(label)
        raise ValueError(f"expected a label such as {json.dumps(example)}; got {found}")
    begin, end, name = label
    if not 0 <= begin < end <= len(text):
        what = "a label without characters," if begin == end else "a label of characters"
        raise ValueError(f"{what} {show_value(begin)} to {show_value(end)}, and there are {len(text):,}")
    return begin, end, name
