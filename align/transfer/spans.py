"""Project labels of character ranges, as annotation tools write them in JSON lines, onto a translation."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from align.core.errors import show_value
from align.core.formats import to_json
from align.models.punctuation import closes, leading, opens, trailing, visible_edges
from align.transfer.labels import Projected, Span, words_of_range
from align.transfer.tags import words_in
from align.transfer.windows import Window

SPANS = "spans"

LISTS = ("labels", "label", "entities", "spans")
"""Keys of the list of labels in annotation tools."""

EDGES = (("start_offset", "end_offset"), ("start", "end"))
"""Keys of start and end of a label that is an object, in doccano, and in spaCy and Prodigy."""

_OF_TOKENS = ("tokens", "token_start", "token_end")
"""Prodigy's keys for the words of a text, which do not apply to a translation."""

TARGET = "target"

_BREAKS = str.maketrans("\n\r", "  ")


class Annotated(NamedTuple):
    """A text and its labels.

    Attributes:
        labels: (begin, end, label) in characters, from 0, the end excluded; in the order of the line.
        record: the whole JSON object of the line; empty for a blank one.
    """

    text: str
    labels: Sequence[tuple[int, int, str]]
    target: str | None
    record: Mapping[str, Any]

    @property
    def plain(self) -> str:
        """The text in one line; each word stays at its offset."""
        return self.text.translate(_BREAKS)

    @property
    def words(self) -> tuple[str, ...]:
        """The words, split at spaces and line ends."""
        return split_text(self.text)

    def spans(self, words: Sequence[Window] | None = None) -> list[Span]:
        """Return the words that each label overlaps.

        Args:
            words: start and end of each word; by default those between spaces.
        """
        words = words_in(self.plain) if words is None else words
        return [Span(label, words_of_range(words, begin, end)) for begin, end, label in self.labels]


def split_text(text: str) -> tuple[str, ...]:
    """Return the words of a text of one line or more."""
    plain = text.translate(_BREAKS)
    return tuple(plain[begin:end] for begin, end in words_in(plain))


def read_annotated(line: str) -> Annotated:
    """Read `{"text": ..., "labels": [[begin, end, label], ...]}`, perhaps with `target`; or a blank line.

    A label may also be an object, with the keys `label` and those of EDGES.

    Raises:
        ValueError: the line is anything else, or a label covers no word.
    """
    if not line.strip(" \t"):
        return Annotated("", (), "", {})
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    try:
        to_json(record)
    except ValueError as error:
        raise ValueError("a number is NaN or infinite, which JSON has no form for") from error
    if not isinstance(record, dict) or not isinstance(record.get("text"), str):
        raise ValueError('not a JSON object with "text" and "labels": [[0, 4, "PER"], ...]')
    name = _name_of_list(record)
    text, labels, target = record["text"], record[name], record.get(TARGET)
    if not isinstance(labels, list) or not all(isinstance(label, list | dict) for label in labels):
        raise ValueError(f'"{name}" is not a list of labels such as [0, 4, "PER"]')
    if target is not None and not isinstance(target, str):
        raise ValueError(f'"{TARGET}" is not a text')
    for side in (text, target or ""):
        if any("\ud800" <= character <= "\udfff" for character in side):
            raise ValueError("a text has half of a character, an escape from \\ud800 to \\udfff")
    annotated = Annotated(text, [_read_label(label, text) for label in labels], target, record)
    for (begin, end, _), (_, words) in zip(annotated.labels, annotated.spans(), strict=True):
        if words == (0, 0):
            raise ValueError(f"no word at characters {begin} to {end}")
    return annotated


def _name_of_list(record: Mapping[str, Any]) -> str:
    """Return the key of the list of labels; a "label" that is not a list may occur in addition, as in Prodigy."""
    names = [name for name in LISTS if name in record]
    if len(names) > 1:
        names = [name for name in names if isinstance(record[name], list)] or names
    if len(names) != 1:
        raise ValueError(f"{' and '.join(names) or 'none'} of {', '.join(LISTS)}, where there should be one")
    return names[0]


def _edges_of(label: Mapping[str, Any]) -> tuple[str, str]:
    """Return the keys of start and end in a label that is an object."""
    return next((edges for edges in EDGES if edges[0] in label), EDGES[0])


def _read_label(label_record: Sequence[Any] | Mapping[str, Any], text: str) -> tuple[int, int, str]:
    example = '[0, 4, "PER"]'
    if isinstance(label_record, Mapping):
        edges = _edges_of(label_record)
        example = json.dumps({edges[0]: 0, edges[1]: 4, "label": "PER"})
        label_record = [label_record.get(key) for key in (*edges, "label")]
    if len(label_record) != 3 or [type(value) for value in label_record] != [int, int, str]:
        raise ValueError(f"a label is not like {example}: {', '.join(map(show_value, label_record[:3]))}")
    begin, end, label = label_record
    if not 0 <= begin < end <= len(text):
        raise ValueError(f"a label of characters {show_value(begin)} to {show_value(end)}, and there are {len(text):,}")
    return begin, end, label


def write_annotated(
    source: Annotated, target: str, found: Sequence[Projected], words: Sequence[Window] | None = None
) -> str:
    """Return the line of a translation: the record of its source, without text, labels, `target` and token counts.

    Relations are preserved if they join two labels of the translation by their ids.

    Args:
        found: the projected labels; labels without a target are left out.
        words: start and end of the target's words; by default those between spaces.
    """
    if not source.record:
        return ""
    name = _name_of_list(source.record)
    plain = target.translate(_BREAKS)
    places = words_in(plain) if words is None else words
    labels = [
        _with_edges(
            label_record,
            *_edges(source.text[begin:end], plain, places, projected.target),
            source.text[begin:end],
            target,
        )
        for label_record, (begin, end, _), projected in zip(source.record[name], source.labels, found, strict=True)
        if projected.target
    ]
    left_out = (TARGET, *(_OF_TOKENS if name == "spans" else ()))
    rest = {key: value for key, value in source.record.items() if key not in left_out}
    if isinstance(relations := rest.get("relations"), list):
        ids = {label["id"] for label in labels if isinstance(label, dict) and isinstance(label.get("id"), int | str)}
        rest["relations"] = [relation for relation in relations if _joins(relation, ids)]
    return to_json({**rest, "text": target, name: labels})


def _joins(relation: Any, ids: Collection[int | str]) -> bool:
    """Check whether a relation, such as doccano's, is between labels that exist."""
    if not isinstance(relation, dict):
        return False
    ends = [relation.get(name) for name in ("from_id", "to_id")]
    return all(isinstance(end, int | str) and end in ids for end in ends)


def _with_edges(label: list[Any] | Mapping[str, Any], begin: int, end: int, labelled: str, target: str) -> Any:
    """Return a label with its range in the translation, and the text of that range if it has the source's."""
    if isinstance(label, list):
        return [begin, end, label[2]]
    rest = {key: value for key, value in label.items() if key not in _OF_TOKENS}
    if rest.get("text") == labelled:
        rest["text"] = target[begin:end]
    return {**rest, **dict(zip(_edges_of(label), (begin, end), strict=True))}


def _edges(labelled: str, plain: str, places: Sequence[Window], window: Window) -> Window:
    """Return the characters of a window of words: punctuation at its edges only if the source's label has it too."""
    (begin, _), (_, end) = places[window[0]], places[window[1] - 1]
    first, last = (plain[slice(*places[n])] for n in (window[0], window[1] - 1))
    before, after = visible_edges(labelled)
    if not opens(before):
        begin += leading(first)
    if not closes(after):
        end -= trailing(last, window[1] == len(places))
    return begin, end
