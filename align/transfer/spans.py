"""Texts with labels of character ranges, as annotation tools write them: JSON lines, brought to a translation."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from align.core.errors import show_value
from align.core.formats import to_json
from align.models.punctuation import closes, leading, opens, trailing, visible_edges
from align.transfer.labels import Projected, Span, range_of_words, words_of_range
from align.transfer.tree import words_in

SPANS = "spans"
"""The kind of labels that these are."""

LISTS = ("labels", "label", "entities", "spans")
"""What annotation tools call the list of labels."""

EDGES = (("start_offset", "end_offset"), ("start", "end"))
"""What doccano, and spaCy and Prodigy, call begin and end of a label that is an object."""

_OF_TOKENS = ("tokens", "token_start", "token_end")
"""What Prodigy says of the words of a text, which a translation does not have."""

TARGET = "target"
"""What the translation is called, beside its source."""

_BREAKS = str.maketrans("\n\r", "  ")


class Annotated(NamedTuple):
    """A text and its labels.

    Attributes:
        text: as it was given.
        labels: (begin, end, label) in characters, from 0, the end left out; in the order given.
        target: its translation, where that is given.
        record: all that the line has; nothing for a blank one.
    """

    text: str
    labels: Sequence[tuple[int, int, str]]
    target: str | None
    record: Mapping[str, Any]

    @property
    def plain(self) -> str:
        """The text in one line; each word stands where it stood."""
        return self.text.translate(_BREAKS)

    @property
    def words(self) -> tuple[str, ...]:
        """Cut at spaces and ends of lines."""
        return split_text(self.text)

    @property
    def spans(self) -> list[Span]:
        """Which words the labels reach into."""
        return [Span(label, words_of_range(self.plain, begin, end)) for begin, end, label in self.labels]


def split_text(text: str) -> tuple[str, ...]:
    """The words of a text of one line or more."""
    plain = text.translate(_BREAKS)
    return tuple(plain[begin:end] for begin, end in words_in(plain))


def read_annotated(line: str) -> Annotated:
    """Read `{"text": ..., "labels": [[begin, end, label], ...]}`, perhaps with `target`; or a blank line.

    A label may also be an object, with the keys `label` and those of EDGES.

    Raises:
        ValueError: the line is anything else, or a label is of no word.
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
    text, given, target = record["text"], record[name], record.get(TARGET)
    if not isinstance(given, list) or not all(isinstance(one, list | dict) for one in given):
        raise ValueError(f'"{name}" is not a list of labels such as [0, 4, "PER"]')
    if target is not None and not isinstance(target, str):
        raise ValueError(f'"{TARGET}" is not a text')
    for one in (text, target or ""):
        if any("\ud800" <= character <= "\udfff" for character in one):
            raise ValueError("a text has half of a character, an escape from \\ud800 to \\udfff")
    found = Annotated(text, [_read_label(one, text) for one in given], target, record)
    assert len(found.spans) == len(given)  # each has a word
    return found


def _name_of_list(record: Mapping[str, Any]) -> str:
    """Find the name of the list of labels; a "label" that is not a list may stand next to it, as in Prodigy.

    Raises:
        ValueError: there is none, or more than one.
    """
    names = [name for name in LISTS if name in record]
    if len(names) > 1:
        names = [name for name in names if isinstance(record[name], list)] or names
    if len(names) != 1:
        raise ValueError(f"{' and '.join(names) or 'none'} of {', '.join(LISTS)}, where there should be one")
    return names[0]


def _edges_of(label: Mapping[str, Any]) -> tuple[str, str]:
    """Find the keys of begin and end in a label that is an object."""
    return next((edges for edges in EDGES if edges[0] in label), EDGES[0])


def _read_label(given: Sequence[Any] | Mapping[str, Any], text: str) -> tuple[int, int, str]:
    example = '[0, 4, "PER"]'
    if isinstance(given, Mapping):
        edges = _edges_of(given)
        example = json.dumps({edges[0]: 0, edges[1]: 4, "label": "PER"})
        given = [given.get(key) for key in (*edges, "label")]
    if len(given) != 3 or [type(one) for one in given] != [int, int, str]:
        raise ValueError(f"a label is not like {example}: {', '.join(map(show_value, given[:3]))}")
    begin, end, label = given
    if not 0 <= begin < end <= len(text):
        raise ValueError(f"a label of characters {show_value(begin)} to {show_value(end)}, and there are {len(text):,}")
    return begin, end, label


def write_annotated(source: Annotated, target: str, found: Sequence[Projected]) -> str:
    """Return the line of a translation: all of its source's but text, labels, `target`, and what counts tokens.

    Of relations those stay that name two labels of the translation by their ids.

    Args:
        source: with its labels.
        target: the translation.
        found: where its words have these labels; what is nowhere is left out.
    """
    if not source.record:
        return ""
    name = _name_of_list(source.record)
    labels = [
        _with_edges(given, *_edges(source.text[begin:end], target, one.target), source.text[begin:end], target)
        for given, (begin, end, _), one in zip(source.record[name], source.labels, found, strict=True)
        if one.target
    ]
    left_out = (TARGET, *(_OF_TOKENS if name == "spans" else ()))
    rest = {key: value for key, value in source.record.items() if key not in left_out}
    if isinstance(relations := rest.get("relations"), list):
        ids = {label["id"] for label in labels if isinstance(label, dict) and isinstance(label.get("id"), int | str)}
        rest["relations"] = [one for one in relations if _joins(one, ids)]
    return to_json({**rest, "text": target, name: labels})


def _joins(relation: Any, ids: Collection[int | str]) -> bool:
    """Tell whether a relation, such as doccano's, is one between labels that are there."""
    if not isinstance(relation, dict):
        return False
    ends = [relation.get(name) for name in ("from_id", "to_id")]
    return all(isinstance(end, int | str) and end in ids for end in ends)


def _with_edges(given: list[Any] | Mapping[str, Any], begin: int, end: int, labelled: str, target: str) -> Any:
    """A label as it was given, but for its place in the translation, and the words there if it has the source's."""
    if isinstance(given, list):
        return [begin, end, given[2]]
    rest = {key: value for key, value in given.items() if key not in _OF_TOKENS}
    if rest.get("text") == labelled:
        rest["text"] = target[begin:end]
    return {**rest, **dict(zip(_edges_of(given), (begin, end), strict=True))}


def _edges(labelled: str, target: str, words: tuple[int, int]) -> tuple[int, int]:
    """The characters of a window of words: punctuation at its edges only where the source's label has such."""
    plain = target.translate(_BREAKS)
    begin, end = range_of_words(plain, words)
    places = words_in(plain)
    first, last = (plain[slice(*places[n])] for n in (words[0], words[1] - 1))
    before, behind = visible_edges(labelled)
    if not opens(before):
        begin += leading(first)
    if not closes(behind):
        end -= trailing(last, words[1] == len(places))
    return begin, end
