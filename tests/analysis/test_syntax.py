"""What is planted in attention is found again: by single heads, by probes, and by classifiers of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.analysis.data.treebank import ROOT, Tree
from align.analysis.maps import SPECIAL, Maps, Tokens
from align.analysis.syntax import (
    NONE,
    Sentence,
    attach,
    attend,
    both_directions,
    classify,
    distances,
    draw_pairs,
    find,
    predict,
    syntax,
    vectors_of_pairs,
)
from align.core.errors import DataError
from tests.analysis.made import MadeModel

pytest.importorskip("sklearn")

SHAPE = (2, 2)
RELATIONS = ("det", "nsubj", "obj")


def random_tree(numbers: np.random.Generator, words: int) -> Tree:
    """Heads anywhere before a word, the first word being the root; the relation follows from the word's number."""
    heads = [ROOT, *(int(numbers.integers(0, n)) for n in range(1, words))]
    relations = ["root", *(RELATIONS[n % 3] for n in range(1, words))]
    return Tree(tuple(f"w{n}" for n in range(words)), ("X",) * words, tuple(heads), tuple(relations), 1)


def planted(tree: Tree, numbers: np.random.Generator) -> Maps:
    """Heads 1-1 and 1-2 attend at random; 2-1 to the head of nsubj; 2-2 is attended to by the head of all others.

    Each word has two pieces, and </s> is last.
    """
    n = len(tree.words)
    words = numbers.random((4, n, n)) * 0.1
    for dependent, (head, relation) in enumerate(zip(tree.heads, tree.relations, strict=True)):
        if head != ROOT:
            words[(2, dependent, head) if relation == "nsubj" else (3, head, dependent)] += 1
    part_of = [*np.repeat(np.arange(n), 2), SPECIAL]
    weights = np.zeros((4, len(part_of), len(part_of)))
    weights[:, :-1, :-1] = np.repeat(np.repeat(words, 2, axis=1), 2, axis=2) / 2
    weights[:, :, -1] = 2  # most of all goes to </s>
    side = Tokens(("x",) * len(part_of), tuple(int(word) for word in part_of), tree.words)
    vectors = np.ones((*SHAPE, len(part_of)), np.float32)
    return Maps(side, side, weights.reshape(*SHAPE, *weights.shape[1:]).astype(np.float32), vectors)


NUMBERS = np.random.default_rng(1)
TREES = [random_tree(NUMBERS, int(NUMBERS.integers(3, 9))) for _ in range(40)]
MODEL = MadeModel([{"encoder": planted(tree, NUMBERS)} for tree in TREES], SHAPE)


@given(st.integers(1, 6), st.integers(0, 99))
def test_predictions_against_loops(words: int, seed: int) -> None:
    numbers = np.random.default_rng(seed)
    attention = numbers.random((3, words, words)).astype(np.float32)
    there = numbers.random(words) < 0.8
    found = predict(attention, there)
    for head in range(3):
        for word in range(words):
            others = [other for other in range(words) if other != word and there[other]]
            if not there[word]:
                assert found[head, word] == found[3 + head, word] == -1
            elif others:
                assert found[head, word] == max(others, key=lambda other: attention[head, word, other])
                assert found[3 + head, word] == max(others, key=lambda other: attention[head, other, word])


def test_planted_heads_are_found_for_their_relations() -> None:
    tables = syntax(MODEL, TREES, fewest=5, probes=False).tables
    rows = {row["relation"]: row for row in tables["relations"].rows}
    assert list(tables) == ["relations"]
    assert set(rows) == {"all", *RELATIONS}
    assert (rows["nsubj"]["weight_head"], rows["nsubj"]["weight"]) == ("2-1 d>h", 100)
    assert (rows["det"]["weight_head"], rows["obj"]["norm_head"]) == ("2-2 h>d", "2-2 h>d")
    assert float(str(rows["det"]["weight"])) > float(str(rows["det"]["offset"]))
    assert sum(int(str(rows[name]["words"])) for name in RELATIONS) == rows["all"]["words"]


def test_relations_that_are_counted() -> None:
    relations, total, _ = find(list(attend(MODEL, TREES)), fewest=10_000)
    assert relations == ["all"]
    assert total.sum() == sum(len(tree.words) - 1 for tree in TREES)
    # a relation of the name of the total is counted as well
    trees = [tree._replace(relations=tuple("all" if one == "det" else one for one in tree.relations)) for tree in TREES]
    (names, expected, right), (others, found, also) = (find(list(attend(MODEL, bank)), 5) for bank in (TREES, trees))
    assert others.count("all") == 2
    for old, new in ((0, 0), (names.index("det"), others.index("all", 1))):
        assert found[:, new].tolist() == expected[:, old].tolist()
        assert also["norm"][:, new].tolist() == right["norm"][:, old].tolist()


def scored(found: Sequence[Any], sentences: Sequence[Sentence]) -> float:
    right = [
        one[n] == head for one, gold in zip(found, sentences, strict=True) for n, head in enumerate(gold.heads) if n
    ]
    return float(np.mean(right))


NO_VECTORS = np.zeros((99, 0), np.float32)


def test_a_probe_finds_planted_heads_in_both_directions() -> None:
    sentences, blind = list[Sentence](), list[Sentence]()
    for one in attend(MODEL, TREES):
        heads, vectors = np.array(one.tree.heads), NO_VECTORS[: len(one.tree.words)]
        sentences.append(Sentence(both_directions(one.attention["weight"]), heads, vectors))
        blind.append(Sentence(distances(len(heads)), heads, vectors))
    assert scored(attach(sentences, seed=1), sentences) > 0.97
    assert scored(attach(blind, seed=1), blind) < 0.7


def test_a_probe_with_embeddings_knows_which_head_to_trust() -> None:
    """Of two heads of attention one is right for words of one kind, the other for words of the other kind."""
    numbers = np.random.default_rng(4)
    plain, informed = list[Sentence](), list[Sentence]()
    for _ in range(60):
        n = 6
        heads = np.array([ROOT, *(int(numbers.integers(0, word)) for word in range(1, n))])
        kind = numbers.integers(0, 2, n)
        features = np.zeros((2, n, n), np.float32)
        for word in range(1, n):
            features[kind[word], word, heads[word]] = 1
            others = [other for other in range(n) if other not in (word, heads[word])]
            features[1 - kind[word], word, numbers.choice(others)] = 1
        plain.append(Sentence(features, heads, NO_VECTORS[:n]))
        informed.append(Sentence(features, heads, np.eye(2, dtype=np.float32)[kind]))
    assert scored(attach(plain, seed=1), plain) < 0.7
    assert scored(attach(informed, seed=1), informed) > 0.97


def test_probes_are_the_same_in_every_run_with_a_sentence_of_one_word() -> None:
    trees = [Tree(("a",), ("X",), (ROOT,), ("root",), 1), *TREES[:9]]
    sentences = [
        Sentence(distances(len(tree.words)), np.array(tree.heads), NO_VECTORS[: len(tree.words)]) for tree in trees
    ]
    first, second = (attach(sentences, seed=2) for _ in range(2))
    for one, other, tree in zip(first, second, trees, strict=True):
        assert one.tolist() == other.tolist()
        assert len(one) == len(tree.words)


def test_pairs_are_all_dependencies_and_as_many_others() -> None:
    pairs = draw_pairs(TREES, seed=1)
    for n, tree in enumerate(TREES):
        edges = {(min(i, h), max(i, h)) for i, h in enumerate(tree.heads) if h != ROOT}
        own = {(i, j): relation for m, i, j, relation in pairs if m == n}
        assert {pair for pair, relation in own.items() if relation != NONE} == edges
        others = [(i, j) for m, i, j, relation in pairs if m == n and relation == NONE]
        words = len(tree.words)
        assert len(set(others)) == len(others) == min(len(edges), words * (words - 1) // 2 - len(edges))
        assert not set(others) & edges
        assert all(first < second < words for first, second in others)


def test_pairs_are_classified_by_what_is_planted() -> None:
    parsed = list(attend(MODEL, TREES))
    pairs = draw_pairs(TREES, seed=1)
    labels = [str(relation != NONE) for *_, relation in pairs]
    sentences = np.array([n for n, *_ in pairs])
    features = vectors_of_pairs([both_directions(one.attention["weight"]) for one in parsed], pairs)
    assert features.shape == (len(pairs), 8)
    n, i, j, _ = pairs[3]
    np.testing.assert_array_equal(features[3, :4], parsed[n].attention["weight"][:, i, j])
    np.testing.assert_array_equal(features[3, 4:], parsed[n].attention["weight"][:, j, i])
    assert classify(features, labels, sentences, seed=1).mean() > 0.98
    by_distance = vectors_of_pairs([distances(len(tree.words)) for tree in TREES], pairs)
    assert classify(by_distance, labels, sentences, seed=1).mean() < 0.85
    assert classify(np.zeros((len(pairs), 1), np.float32), labels, sentences, seed=1).mean() <= 0.6


def test_all_tables_with_a_file_of_vectors(tmp_path: Any) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("".join(f"w{n} {n} 1 0\n" for n in range(8)), encoding="utf-8")
    model = MadeModel([{}, *MODEL._maps[1:]], SHAPE)
    tables = syntax(model, TREES, fewest=5, vectors=str(path)).tables
    assert tables["relations"].notes[-1].startswith("39 sentences; 1 left out")
    rows = {row["method"]: float(str(row["uas"])) for row in tables["attachment"].rows}
    assert rows["attention, a"] > 95
    assert rows["the word before"] > rows["the word behind"] == 0
    assert "100.0 % of the words" in tables["attachment"].notes[1]
    tasks = [(row["task"], row["features"]) for row in tables["pairs"].rows]
    assert len(tasks) == len(set(tasks)) == 8


@pytest.mark.parametrize(
    ("part", "trees", "probes", "message"),
    [
        ("encoder", TREES[:3], True, "probes need 5 sentences: the model can read 3: no_probes=True does without"),
        ("encoder", [Tree(("a",), ("X",), (ROOT,), ("root",), 1)], False, "no sentence with a dependency"),
        ("decoder", TREES[:1], True, "made:de-en@0000000 has no attention of the encoder: there is decoder"),
    ],
)
def test_too_little_to_go_by(part: Any, trees: list[Tree], probes: bool, message: str) -> None:
    numbers = np.random.default_rng(1)
    model = MadeModel([{part: planted(tree, numbers)} for tree in trees], SHAPE)
    with pytest.raises(DataError) as error:
        syntax(model, trees, probes=probes)
    assert str(error.value).startswith(message)
