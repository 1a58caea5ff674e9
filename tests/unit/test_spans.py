"""Labels of character ranges, read from what annotation tools write and brought to a translation."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.evaluation.link_formats import parse_pharaoh
from align.transfer.markup import PART
from align.transfer.spans import read_annotated

TEXTS = st.text("ab .,«»\n\r\t\xa0", min_size=1, max_size=12)


def project(line: str, target: str, *windows: tuple[int, int] | None) -> Any:
    """The line of a translation in which the words of each label are linked to a window, in order."""
    source = read_annotated(line, target)
    links = {
        (i, j)
        for (_, words), window in zip(source.spans(), windows, strict=True)
        for i in range(*words)
        for j in range(*(window or (0, 0)))
    }
    return json.loads(source.place(dict.fromkeys(links, 1.0)).text)


def test_words_that_labels_reach_into() -> None:
    line = '{"text": "Frau Angela\\nMerkel lacht", "labels": [[5, 18, "PER"], [8, 9, "X"]]}'
    found = read_annotated(line, "")
    assert found.pair.source == ("Frau", "Angela", "Merkel", "lacht")
    assert found.plain == "Frau Angela Merkel lacht"
    assert found.spans() == [("PER", (1, 3)), ("X", (1, 2))]


@pytest.mark.parametrize("name", ["labels", "label", "entities", "spans"])
def test_all_else_stays_as_it_was(name: str) -> None:
    line = json.dumps({"id": 7, "target": "old", "text": "a b", name: [[0, 1, "A"], [2, 3, "B"]], "meta": {"é": None}})
    found = project(line, "x\ny", (1, 2), None)
    assert found == {"id": 7, "text": "x\ny", name: [[2, 3, "A"]], "meta": {"é": None}}
    assert list(found) == ["id", "text", name, "meta"]


def test_labels_that_are_objects_stay_such() -> None:
    doccano = {"id": 3, "text": "a b", "relations": [], "Comments": []}
    label = {"id": 5, "label": "A", "start_offset": 2, "end_offset": 3}
    found = project(json.dumps({**doccano, "entities": [label]}), "x yy z", (1, 2))
    assert found == {**doccano, "text": "x yy z", "entities": [{**label, "start_offset": 2, "end_offset": 4}]}
    assert list(found["entities"][0]) == list(label)
    prodigy = {"text": "a b", "_task_hash": 1, "label": "A", "answer": "accept"}
    tokens = [{"text": "a", "start": 0, "end": 1, "id": 0}, {"text": "b", "start": 2, "end": 3, "id": 1}]
    spans = [
        {"start": 2, "end": 3, "label": "A", "text": "b", "token_start": 1, "token_end": 1},
        {"start": 0, "end": 1, "label": "B", "source": "model"},
    ]
    line = json.dumps({**prodigy, "tokens": tokens, "spans": spans})
    assert project(line, "x yy z", (1, 2), (2, 3)) == {
        **prodigy,
        "text": "x yy z",
        "spans": [
            {"start": 2, "end": 4, "label": "A", "text": "yy"},
            {"start": 5, "end": 6, "label": "B", "source": "model"},
        ],
    }
    assert project(line, "x", None, None)["spans"] == []


@pytest.mark.parametrize(
    ("text", "label", "target", "expected"),
    [
        ("Haus,", [0, 4, "X"], "the (house).", "house"),  # punctuation stays outside, where it did in the source
        ("Haus,", [0, 5, "X"], "the house,", "house,"),
        ("Haus,", [0, 5, "X"], "the house.", "house"),
        ("«Haus»", [0, 6, "X"], "the “house”.", "“house”"),
        ("bei A.", [4, 6, "X"], "the Ltd. Co.", "Ltd. Co."),
        ("das ,", [4, 5, "X"], "x , .", ","),
    ],
)
def test_punctuation_at_the_edges(text: str, label: list[Any], target: str, expected: str) -> None:
    (found,) = project(json.dumps({"text": text, "labels": [label]}), target, (1, len(target.split())))["labels"]
    assert target[found[0] : found[1]] == expected


@pytest.mark.parametrize(
    ("text", "labels", "target", "links", "expected"),
    [
        ("das Rad von Eva", [[12, 15]], "Eva's bike", "1-1 2-0 3-0", ["Eva"]),
        ("nach Rom/Wien.", [[5, 8], [9, 13]], "to Rome/Vienna.", "0-0 1-1", ["Rome", "Vienna"]),
        ("(Bonn)-Köln da", [[1, 5], [7, 11]], "(Bonn)-Cologne there", "0-0 1-1", ["Bonn", "Cologne"]),
        ("Rom-Wien", [[0, 3], [4, 8]], "RomeVienna", "0-0", ["Rom"]),
    ],
)
def test_labels_inside_words(text: str, labels: list[list[int]], target: str, links: str, expected: list[str]) -> None:
    line = json.dumps({"text": text, "labels": [[*label, "X"] for label in labels]})
    placed = read_annotated(line, target).place(dict.fromkeys(parse_pharaoh(links), 1.0))
    assert [target[begin:end] for begin, end, _ in json.loads(placed.text)["labels"]] == expected
    for row, (begin, end) in zip(placed.report, labels, strict=True):
        assert text[begin:end] in target or (row.confidence <= PART and "inside a word" in row.remarks)


@given(TEXTS, TEXTS, st.integers(0, 11), st.integers(1, 12))
def test_ranges_hold_what_words_hold(text: str, target: str, begin: int, end: int) -> None:
    line = json.dumps({"text": text, "labels": [[begin, end, "X"]]})
    if not begin < end <= len(text) or not text[begin:end].strip(" \t\n\r"):
        with pytest.raises(ValueError, match="characters"):
            read_annotated(line)
        return
    words = read_annotated(json.dumps({"text": target, "labels": []}), "").pair.source
    if words:
        ((first, behind, _),) = project(line, target, (0, len(words)))["labels"]
        assert 0 <= first < behind <= len(target)
        assert target[first:behind].strip(" \t\n\r") == target[first:behind]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("[" * 100_000, 'not a JSON object with a valid "text"'),
        ('{"text": "a", "label": [], "labels": []}', "got labels and label"),
        (
            '{"text": "a", "entities": [{"start_offset": 0}]}',
            'expected a label such as {"start_offset": 0, "end_offset": 4, "label": "PER"}; got 0, of type NoneType',
        ),
        ('{"text": "a", "labels": [[0, 2, "X"]]}', "a label of characters 0 to 2, and there are 1"),
        ('{"text": "ein Ort", "labels": [[3, 3, "X"]]}', "a label without characters, 3 to 3, and there are 7"),
        ('{"text": "a \\n b", "labels": [[1, 4, "X"]]}', "no word at characters 1 to 4"),
        ('{"text": "\\ud800", "labels": []}', 'not a JSON object with a valid "text"'),
    ],
)
def test_lines_that_are_something_else(line: str, error: str) -> None:
    with pytest.raises(ValueError, match=re.escape(error)):
        read_annotated(line)


def test_relations_that_do_not_hold_in_the_translation_are_left_out() -> None:
    doccano = {
        "text": "a b c",
        "entities": [{"id": n, "label": "A", "start_offset": 2 * n, "end_offset": 2 * n + 1} for n in range(3)],
        "relations": [{"id": 0, "from_id": 0, "to_id": 1, "type": "r"}, {"id": 1, "from_id": 1, "to_id": 2}],
    }
    assert project(json.dumps(doccano), "x y", (0, 1), (1, 2), None)["relations"] == doccano["relations"][:1]
    prodigy = {
        "text": "a b",
        "spans": [{"start": 0, "end": 1, "label": "A"}],
        "relations": [{"head": 0, "child": 1, "head_span": {"start": 0, "end": 1}, "label": "r"}],
    }
    assert project(json.dumps(prodigy), "x y", (0, 1))["relations"] == []


def test_invisible_characters_at_the_edge_of_a_label_change_nothing() -> None:
    for text in ("Haus!", "Haus!\u200f", "Haus\u00ad!\u00ad"):
        line = json.dumps({"text": text, "labels": [[0, len(text), "X"]]})
        assert project(line, "the house!", (1, 2))["labels"] == [[4, 10, "X"]]
