"""Project labels of character ranges, as annotation tools write them in JSON lines, onto a translation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from align.core.errors import show_value
from align.core.formats import to_json
from align.core.text import split_words
from align.core.types import Pair
from align.models.punctuation import closes, leading, opens, trailing, visible_edges
from align.transfer.labels import Projected, Span, project_labels
from align.transfer.lines import Links, Placed
from align.transfer.tags import find_words, words_in
from align.transfer.windows import Window

SPANS = "spans"

LISTS = ("labels", "label", "entities", "spans")  # keys of the list of labels in annotation tools

EDGES = (("start_offset", "end_offset"), ("start", "end"))
"""Keys of start and end of a label that is an object, in doccano, and in spaCy and Prodigy."""

_OF_TOKENS = ("tokens", "token_start", "token_end")
"""Prodigy's keys for the words of a text, which do not apply to a translation."""

TARGET = "target"

_BREAKS = str.maketrans("\n\r", "  ")


class Annotated(NamedTuple):
    """A text with labels, and its translation; see `align.transfer.lines.Line`.

    Attributes:
        plain: the text in one line; each word stays at its offset.
        labels: (begin, end, label) in characters, from 0, the end excluded; in the order of the line.
        record: the whole JSON object of the line; None for a blank one.
        words: start and end of the words of both sides.
    """

    pair: Pair
    plain: str
    labels: Sequence[tuple[int, int, str]]
    record: Mapping[str, Any] | None
    target: str
    words: tuple[Sequence[Window], Sequence[Window]]

    def divided(self, pair: Pair, scores: Links) -> tuple[Annotated, Links]:
        """Return the line in the words of a pair; their target is the translation if there is none yet."""
        target = self.target or " ".join(pair.target)
        words = find_words(pair.source, self.plain, False), find_words(pair.target, target, False)
        return self._replace(pair=pair, target=target, words=words), scores

    def place(self, scores: Links) -> Placed:
        """Return the line of the translation, and where each label is."""
        found = project_labels(self.spans(), scores, len(self.pair.source), len(self.pair.target))
        return Placed(self.write(found), [one.placement() for one in found], " ".join(self.pair.source))

    def spans(self) -> list[Span]:
        """Return the words that each label overlaps; (0, 0) without any."""
        spans = []
        for begin, end, label in self.labels:
            inside = [n for n, (first, after) in enumerate(self.words[0]) if first < end and begin < after]
            spans.append(Span(label, (inside[0], inside[-1] + 1) if inside else (0, 0)))
        return spans

    def write(self, found: Sequence[Projected]) -> str:
        """Return the line of the translation: the record of its source, without `target` and token counts.

        Labels without a target are left out, and relations that do not join two of the others by their ids.
        """
        if self.record is None:
            return ""
        name = _name_of_list(self.record)
        labels: list[Any] = []
        for label, (begin, end, kind), projected in zip(self.record[name], self.labels, found, strict=True):
            if not projected.target:
                continue
            text = self.record["text"][begin:end]
            begin, end = self._edges(text, projected.target)
            if isinstance(label, list):
                labels.append([begin, end, kind])
                continue
            label = label | dict(zip(_edges_of(label), (begin, end), strict=True))
            if label.get("text") == text:
                label["text"] = self.target[begin:end]
            labels.append({key: value for key, value in label.items() if key not in _OF_TOKENS})
        left_out = (TARGET, *(_OF_TOKENS if name == "spans" else ()))
        rest = {key: value for key, value in self.record.items() if key not in left_out}
        if isinstance(relations := rest.get("relations"), list):
            ids = [label["id"] for label in labels if isinstance(label, dict) and "id" in label]
            rest["relations"] = [
                relation
                for relation in relations
                if isinstance(relation, dict) and all(relation.get(key) in ids for key in ("from_id", "to_id"))
            ]
        return to_json({**rest, "text": self.target, name: labels})

    def _edges(self, labelled: str, window: Window) -> Window:
        """Return the characters of target words: punctuation at their edges only if the source's label has it too."""
        places = self.words[1][window[0]], self.words[1][window[1] - 1]
        first, last = (self.target.translate(_BREAKS)[slice(*place)] for place in places)
        before, after = visible_edges(labelled)
        begin = places[0][0] if opens(before) else places[0][0] + leading(first)
        cut = 0 if closes(after) else trailing(last, window[1] == len(self.words[1]))
        return begin, places[1][1] - cut


def read_annotated(line: str, target: str | None = None, number: int = 1) -> Annotated:
    """Read `{"text": ..., "labels": [[begin, end, label], ...]}`, perhaps with `target`; or a blank line.

    A label may also be an object, with the keys `label` and those of EDGES.

    Args:
        target: the translation; None for that of the line itself.
    """
    is_blank = not line.strip(" \t")
    try:
        record = {"text": "", "labels": [], TARGET: ""} if is_blank else json.loads(line)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or not isinstance(record.get("text"), str):
        raise ValueError('not a JSON object with "text" and "labels": [[0, 4, "PER"], ...]')
    name = _name_of_list(record)
    text, labels, own = record["text"], record[name], record.get(TARGET)
    if not isinstance(labels, list) or not all(isinstance(label, list | dict) for label in labels):
        raise ValueError(f'"{name}" is not a list of labels such as [0, 4, "PER"]')
    if own is not None and not isinstance(own, str):
        raise ValueError(f'"{TARGET}" is not a text')
    try:
        json.dumps(record, allow_nan=False)
        f"{text}{own}".encode()
    except ValueError:
        raise ValueError(
            "a number is NaN or infinite, or a text has half of a character (\\ud800 to \\udfff)"
        ) from None
    target = own if target is None else target
    ranges = [_read_label(label, text) for label in labels]
    plain, translation = (side.translate(_BREAKS) for side in (text, target or ""))
    pair = Pair(split_words(plain), split_words(translation), number)
    words = words_in(plain), words_in(translation)
    annotated = Annotated(pair, plain, ranges, None if is_blank else record, target or "", words)
    for (begin, end, _), (_, window) in zip(ranges, annotated.spans(), strict=True):
        if window == (0, 0):
            raise ValueError(f"no word at characters {begin} to {end}")
    if target is None:
        raise ValueError(f'no "{TARGET}" with the text')
    return annotated


def _name_of_list(record: Mapping[str, Any]) -> str:
    """Return the key of the list of labels; a "label" that is not a list may occur in addition, as in Prodigy."""
    names = [name for name in LISTS if name in record]
    names = [name for name in names if len(names) == 1 or isinstance(record[name], list)]
    if len(names) != 1:
        raise ValueError(f"expected one of {', '.join(LISTS)}; got {' and '.join(names) or 'none'}")
    return names[0]


def _edges_of(label: Mapping[str, Any]) -> tuple[str, str]:
    """Return the keys of start and end in a label that is an object."""
    return next((edges for edges in EDGES if edges[0] in label), EDGES[0])


def _read_label(label: Sequence[Any] | Mapping[str, Any], text: str) -> tuple[int, int, str]:
    example = '[0, 4, "PER"]'
    if isinstance(label, Mapping):
        edges = _edges_of(label)
        example = json.dumps({edges[0]: 0, edges[1]: 4, "label": "PER"})
        label = [label.get(key) for key in (*edges, "label")]
    if [type(value) for value in label] != [int, int, str]:
        raise ValueError(f"expected a label such as {example}; got {', '.join(map(show_value, label[:3]))}")
    begin, end, name = label
    if not 0 <= begin < end <= len(text):
        raise ValueError(f"a label of characters {show_value(begin)} to {show_value(end)}, and there are {len(text):,}")
    return begin, end, name
