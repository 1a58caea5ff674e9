"""Link scorers: what they compute, how they are stored, and when an aligner uses one."""

from __future__ import annotations

import operator
import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save

from align import Aligner, Pair, load, two_way
from align.core.errors import ModelError
from align.core.scores import Scorer, soft_scores
from align.core.types import Pieces, TextWarning
from align.io.signature import sign
from align.models import link_scorer
from align.models.folder import GENERAL_SCORER, SCORER_FILE
from align.models.link_scorer import (
    CHANNELS,
    FORMAT,
    LARGEST,
    LEAST,
    LinkScorer,
    Network,
    about_scorer,
    read_scorer,
    scorer_bytes,
)
from align.training.scorer import Example, read_examples, train_network, with_runs
from tests import naive, toy
from tests.corpora import with_gaps

PAIRS = with_gaps(40)


def network_of(seed: int = 1) -> Network:
    torch.manual_seed(seed)
    return Network().eval()


def scorer_of(network: Network) -> LinkScorer:
    return LinkScorer(Path("scorer"), "0123456", {}, "cpu", network)


def sized(sources: int, targets: int) -> Pieces:
    return Pieces([], [], [], [], (sources, targets))


def shares_of(targets: int, sources: int, seed: int) -> torch.Tensor:
    return (9 * torch.rand(targets, sources, generator=torch.Generator().manual_seed(seed))).softmax(-1)


def naive_probabilities(network: Network, forward: torch.Tensor, reverse: torch.Tensor) -> np.ndarray:
    """Compute the probabilities of one pair, a pair of words at a time, inactive ones as well, which count as 0."""
    weights = {name: weight.double().numpy() for name, weight in network.state_dict().items()}
    targets, sources = forward.shape
    soft = naive.soft_scores(forward.tolist(), reverse.tolist())
    active = torch.maximum(forward, reverse.T).numpy() > LEAST
    x = np.zeros((targets, sources, CHANNELS))
    for j in range(targets):
        for i in range(sources):
            shares = [(np.log(max(1e-4, share)) + 5) / 5 for share in (float(forward[j, i]), float(reverse[i, j]))]
            x[j, i] = [soft[j][i], *shares, abs(i / sources - j / targets)]

    def point(name: str, at: np.ndarray) -> np.ndarray:
        return np.asarray(weights[f"{name}.weight"] @ at + weights.get(f"{name}.bias", 0))

    def around(name: str, field: np.ndarray, j: int, i: int) -> np.ndarray:
        total = weights[f"{name}.bias"].copy()
        by_neighbour = weights[f"{name}.weight"].reshape(-1, 3, 3, field.shape[2])
        for dj in (-1, 0, 1):
            for di in (-1, 0, 1):
                if 0 <= j + dj < targets and 0 <= i + di < sources:
                    total += by_neighbour[:, dj + 1, di + 1] @ field[j + dj, i + di]
        return np.asarray(total)

    cells = [(j, i) for j in range(targets) for i in range(sources)]

    def each(compute: Callable[[int, int], np.ndarray]) -> np.ndarray:
        return np.array([compute(j, i) * active[j, i] for j, i in cells]).reshape(targets, sources, -1)

    hidden = each(lambda j, i: np.maximum(point("enter", x[j, i]), 0))
    hidden = each(lambda j, i: hidden[j, i] + np.maximum(around("first", hidden, j, i), 0))
    rows, columns, of_pair = hidden.max(1), hidden.max(0), point("pairs", hidden.sum((0, 1)) / max(1, active.sum()))
    hidden = each(
        lambda j, i: hidden[j, i] + np.maximum(point("rows", rows[j]) + point("columns", columns[i]) + of_pair, 0)
    )
    hidden = each(lambda j, i: hidden[j, i] + np.maximum(around("second", hidden, j, i), 0))
    return np.asarray(each(lambda j, i: 1 / (1 + np.exp(-point("leave", hidden[j, i]))))[..., 0])


@pytest.mark.parametrize("both", [False, True])
def test_probabilities_are_those_of_naive_loops(both: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [(4, 3), (9, 8), (6, 6), (3, 2), (1, 5)]
    network = network_of()
    forward, reverse = torch.zeros(5, 8, 9), torch.zeros(5, 9, 8)
    expected = []
    for n, (sources, targets) in enumerate(sizes):
        ahead, back = shares_of(targets, sources, n), shares_of(sources, targets, n + 10)
        if n == 3:
            ahead, back = torch.zeros(targets, sources), torch.zeros(sources, targets)
        forward[n, :targets, :sources], reverse[n, :sources, :targets] = ahead, back
        expected.append(naive_probabilities(network, ahead, back if both else ahead.T))
    seen = [by_loops > 0 for by_loops in expected]
    assert [part.any() for part in seen] == [True, True, True, False, True]
    assert not seen[1].all()
    for cells in (1 << 12, 7):
        monkeypatch.setattr(link_scorer, "CELLS", cells)
        with torch.device("meta"):  # where tensors would be that are not asked to be on the shares' device
            computed = scorer_of(network)(forward, reverse if both else None, [sized(*size) for size in sizes])
        for probabilities, by_loops, (sources, targets) in zip(computed, expected, sizes, strict=True):
            np.testing.assert_allclose(probabilities[:targets, :sources], by_loops, atol=1e-5)
            assert ((probabilities[:targets, :sources] > 0).numpy() == (by_loops > 0)).all()
            assert not probabilities[targets:].any()
            assert not probabilities[:, sources:].any()


def test_a_pair_has_the_same_probabilities_alone() -> None:
    sizes = [(60, 50), (200, 150), (5, 70)]
    forward = torch.zeros(3, 150, 200)
    for n, (sources, targets) in enumerate(sizes):
        forward[n, :targets, :sources] = shares_of(targets, sources, n)
    scorer = scorer_of(network_of())
    together = scorer(forward, None, [sized(*size) for size in sizes])
    for of_batch, shares, (sources, targets) in zip(together, forward, sizes, strict=True):
        alone = scorer(shares[None, :targets, :sources], None, [sized(sources, targets)])[0]
        assert 0 < (alone > 0).sum() < alone.numel()
        torch.testing.assert_close(of_batch[:targets, :sources], alone, atol=1e-5, rtol=0)
    blank = scorer(torch.zeros(2, 3, 4), None, [sized(4, 3), sized(2, 2)])
    assert blank.shape == (2, 3, 4)
    assert not blank.any()


def test_training_learns_what_labels_say() -> None:
    examples = []
    for n in range(96):  # links are where shares are large, but not in the first column
        shares = shares_of(3 + n % 3, 4 + n % 2, n)
        labels = (shares > 0.3).half()
        labels[:, 0] = 0
        examples.append(Example(shares.half(), shares.T.softmax(-1).half() if n % 2 else None, labels))
    losses: list[float] = []
    one_way = [example._replace(reverse=None) for example in examples]
    network = train_network(one_way, 100, 1, lambda _, loss: losses.append(loss))
    assert len(losses) == 100
    assert losses[-1] < losses[0] / 3
    scorer = scorer_of(network)
    right = total = 0
    for example in one_way:
        targets, sources = example.labels.shape
        computed = scorer(example.forward.float()[None], None, [sized(sources, targets)])[0] > 0.5
        right, total = right + int((computed == (example.labels > 0)).sum()), total + targets * sources
    assert right > 0.95 * total
    again = train_network(one_way[:20], 2, 5).state_dict()
    assert all(
        torch.equal(weight, again[name]) for name, weight in train_network(one_way[:20], 2, 5).state_dict().items()
    )
    with pytest.raises(ValueError, match="no pairs"):
        train_network([], 1, 1)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Toy models of both directions, the forward one with a scorer that was trained with both."""
    folder = tmp_path_factory.mktemp("toys")
    forward, reverse = toy.save_model(folder / "de-en").parent, toy.save_reverse_model(folder / "en-de")
    for path, languages in ((forward, ("de", "en")), (reverse, ("en", "de"))):
        toy.store_cells(path, languages)
    aligner = two_way(load(str(forward), device="cpu"), load(str(reverse), device="cpu")).fixed()
    (forward / SCORER_FILE).write_bytes(scorer_bytes(network_of(), about_scorer(aligner, pairs=1)))
    return forward, reverse


@pytest.fixture(scope="module")
def bare(folders: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The forward model without its scorer."""
    folder = tmp_path_factory.mktemp("bare") / "de-en"
    shutil.copytree(folders[0], folder, ignore=shutil.ignore_patterns(SCORER_FILE))
    return folder


def scores_of(aligner: Aligner) -> list[dict[tuple[int, int], float]]:
    return [dict(alignment.scores) for alignment in aligner(PAIRS)]


def by_hand(aligner: Aligner, scorer: Scorer) -> list[dict[tuple[int, int], float]]:
    """Links of each pair by itself, with the scores that a scorer gives."""
    choices = aligner.fixed(PAIRS).choices
    expected = []
    for pair in PAIRS:
        links: dict[tuple[int, int], float] = {}
        if not pair.blank:
            sides = (pair, Pair(pair.target, pair.source, pair.id))
            shares = [
                direction.reader.shares([direction.recorder.encode(side)], choice.place)
                for direction, choice, side in zip(aligner.directions, choices, sides, strict=False)
            ]
            size = sized(len(pair.source), len(pair.target))
            rows = scorer(shares[0], shares[1] if len(shares) == 2 else None, [size])[0].tolist()
            links = {
                (i, j): score for j, row in enumerate(rows) for i, score in enumerate(row) if score > aligner.threshold
            }
        expected.append(links)
    return expected


@pytest.mark.filterwarnings("ignore::align.core.types.TextWarning")
def test_an_aligner_uses_the_scorer_next_to_its_model(folders: tuple[Path, Path]) -> None:
    forward, reverse = (str(folder) for folder in folders)
    single = replace(load(forward, device="cpu", threshold=0.4), threshold=0.4)
    both = two_way(load(forward, device="cpu"), load(reverse, device="cpu"), threshold=0.4)
    for aligner in (single, both):
        computed = scores_of(aligner)
        for links, expected in zip(computed, by_hand(aligner, scorer_of(network_of())), strict=True):
            assert links == pytest.approx(expected, abs=1e-4)
        assert any(computed)
        assert f"|scorer:{aligner.forward.scorer.digest}|" in sign(aligner)  # type: ignore[union-attr]


@pytest.mark.filterwarnings("ignore::align.core.types.TextWarning")
def test_other_models_use_the_general_scorer(folders: tuple[Path, Path], bare: Path) -> None:
    general = read_scorer()
    ways: list[Any] = [
        {}, {"position": "input", "null": "mask"}, {"score": "weight", "position": "output", "layer": 1, "head": "all"},
        {"dtype": "bfloat16"}, {"workers": 2},
    ]  # fmt: skip
    for options in ways:
        single = replace(load(str(bare), device="cpu", threshold=0, **options), threshold=0)
        both = two_way(single, load(str(folders[1]), device="cpu"), threshold=0)
        for aligner in (single, both):
            assert aligner.forward.scorer is general
            for links, expected in zip(scores_of(aligner), by_hand(aligner, general), strict=True):
                assert links == pytest.approx(expected, abs=1e-4)
            assert f"|scorer:{general.digest}|" in sign(aligner)
    apart = two_way(load(str(folders[0]), device="cpu"), load(str(folders[1]), device="cpu"), "union")
    assert f"|scorer:{apart.forward.scorer.digest}+{general.digest}|" in sign(apart)  # type: ignore[union-attr]


@pytest.mark.filterwarnings("ignore::align.core.types.TextWarning")
def test_none_is_soft_scores(folders: tuple[Path, Path]) -> None:
    forward, reverse = (load(str(folder), device="cpu", threshold=0.4, scorer=None) for folder in folders)
    for aligner in (replace(forward, threshold=0.4), two_way(forward, reverse, threshold=0.4)):
        computed = scores_of(aligner)
        soft = by_hand(aligner, lambda forward, reverse, _: soft_scores(forward, reverse))
        for links, expected in zip(computed, soft, strict=True):
            assert links == pytest.approx(expected, abs=1e-5)
        assert any(computed)
        assert "scorer" not in sign(aligner)


@pytest.mark.filterwarnings("ignore::align.core.types.TextWarning")
def test_settings_of_an_earlier_release_are_its_defaults(folders: tuple[Path, Path]) -> None:
    old = load(folders[0], settings="0.3")
    assert old.forward.scorer is None
    given = load(folders[0], settings="0.3", scorer=folders[0] / "scorer.safetensors")
    assert given.forward.scorer is not None
    with pytest.raises(ModelError, match=r"weights or the scorer of de-en-fast are not those of 0\.3") as caught:
        load(settings="0.3")
    assert str(caught.value).endswith("run that release, or leave out settings")
    with pytest.raises(ValueError, match=r"settings must be one of 0\.3; got '0\.2'"):
        load(settings="0.2")  # type: ignore[arg-type]


def test_a_scorer_is_for_what_it_was_trained_with(folders: tuple[Path, Path], tmp_path: Path) -> None:
    forward, reverse = folders
    scorer = forward / SCORER_FILE
    for options in ({"position": "input"}, {"score": "weight"}, {"layer": 2}, {"output_head": 1}, {"null": "mask"}):
        with pytest.warns(TextWarning, match=f"{SCORER_FILE}: the scorer was trained .*: the general scorer is used"):
            assert load(str(forward), device="cpu", **options).forward.scorer is read_scorer()
    choice = load(str(forward), device="cpu").forward.known_choice
    assert choice
    assert choice.place.input
    at_its_cell: Any = {"layer": choice.place.input.layer, "head": choice.place.input.head}
    assert load(str(forward), device="cpu", **at_its_cell).forward.scorer
    with pytest.raises(ModelError, match="trained with position both, not input") as caught:
        load(str(forward), device="cpu", position="input", scorer=scorer)
    assert caught.value.file == str(scorer)
    with pytest.raises(ModelError, match="trained with position both, not input; null eos, not mask"):
        load(str(forward), device="cpu", position="input", null="mask", scorer=scorer)
    assert load(str(reverse), device="cpu", scorer=scorer).forward.scorer  # any model may use it, if asked to
    assert "scorer" not in sign(load(str(forward), device="cpu", threshold=None))
    copied = tmp_path / "other"
    shutil.copytree(reverse, copied)
    shutil.copy(scorer, copied)
    with pytest.warns(TextWarning, match="trained with a model other than fairseq:en-de@.*, and not used"):
        assert load(str(copied), device="cpu").forward.scorer is read_scorer()


def test_a_run_of_one_word_is_linked_in_order() -> None:
    labels = {(0, 1): 0.95, (1, 0): 0.6, (2, 2): 0.97, (2, 3): 0.6}  # only the first two words have no other link
    given = Pair(("a", "b", "c"), ("x", "y", "z", "z"), 1)
    ((pair, links), *rest) = with_runs([(given, labels)] * 3, Random(1))
    run = len(pair.source) - 2
    assert 2 <= run <= 8
    assert (pair.source, pair.target) == (("a",) * run + ("b", "c"), ("x", *("y",) * run, "z", "z"))
    in_order = {(n, n + 1): 0.95 for n in range(run)}
    assert links == in_order | {(run, 0): 0.6, (run + 1, run + 1): 0.97, (run + 1, run + 2): 0.6}
    assert rest == [(given, labels)] * 2
    assert with_runs([(given, {(0, 0): 0.5})], Random(1)) == [(given, {(0, 0): 0.5})]
    long = Pair(("das",) * 55, ("the",) * 55, 1)
    assert with_runs([(long, {(0, 0): 1.0})], Random(1)) == [(long, {(0, 0): 1.0})]  # pairs of 60 words at most


RUNS = (
    *(("ha", "ha", 8), (".", ".", 6), ("ja", "yes", 5), ("nein", "no", 4), ("!", "!", 3), ("la", "la", 10)),
    *(("bla", "blah", 3), ("und", "and", 5), ("nein", "no", 6), ("5", "5", 5), ("-", "-", 7)),
)


@pytest.mark.parametrize(("name", "reverse"), [("de-en", "en-de"), ("de-en-fast", "en-de-fast")])
def test_runs_of_one_word_are_linked_in_order(name: str, reverse: str) -> None:
    pairs = [((word,) * count, (other,) * count) for word, other, count in RUNS]
    diagonals = [{(n, n) for n in range(count)} for *_, count in RUNS]

    def right(scorer: str | None) -> tuple[int, int]:
        """Return how many runs are right with one model and with two."""
        one, back = (load(model, device="cpu", scorer=scorer) for model in (name, reverse))
        links = ([set(alignment.links) for alignment in aligner(pairs)] for aligner in (one, two_way(one, back)))
        one_way, both = (sum(map(operator.eq, found, diagonals)) for found in links)
        return one_way, both

    one_way, both = right("auto")
    assert (one_way, both) > right(None)
    assert one_way >= 5
    assert both >= 7


def test_two_models_use_a_scorer_of_both(folders: tuple[Path, Path], tmp_path: Path) -> None:
    forward, reverse = (load(str(folder), device="cpu") for folder in folders)
    alone = tmp_path / "alone.safetensors"
    alone.write_bytes(scorer_bytes(network_of(), about_scorer(forward.fixed())))
    of_one = load(str(folders[0]), device="cpu", scorer=alone)
    assert of_one.forward.scorer
    with pytest.warns(TextWarning, match="was trained with one model: the general scorer is used"):
        joined = two_way(of_one, reverse)
    assert joined.forward.scorer is read_scorer()
    assert two_way(load(str(folders[0]), device="cpu", scorer=None), reverse).forward.scorer is None
    assert two_way(of_one, reverse, "union").forward.scorer is of_one.forward.scorer


@pytest.mark.filterwarnings("error::align.core.types.TextWarning")
def test_a_general_file_suits_any_model(folders: tuple[Path, Path], bare: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    shutil.copytree(bare, own)
    file = own / SCORER_FILE
    file.write_bytes(scorer_bytes(network_of(3), {"pairs": "1"}))
    ways: list[Any] = [{}, {"position": "input"}, {"score": "weight"}, {"layer": 2}, {"null": "mask"}]
    for options in ways:
        for scorer in (load(str(bare), device="cpu", scorer=file, **options), load(str(own), device="cpu", **options)):
            assert scorer.forward.scorer is read_scorer(file)
            assert two_way(scorer, load(str(folders[1]), device="cpu")).forward.scorer is read_scorer(file)


def test_the_general_scorer_is_small_and_of_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    assert GENERAL_SCORER.stat().st_size <= 300_000
    assert not {"model", "reverse", "score", "position", "null", "cells", "reverse_cells"} & read_scorer().about.keys()
    pickled = pickle.dumps(read_scorer())
    assert str(GENERAL_SCORER.parent).encode() not in pickled  # other machines may have it elsewhere
    assert pickle.loads(pickled) is read_scorer()
    toy_model = Path(toy.__file__).parent / "golden" / "models" / "de-en"
    assert load(toy_model, device="cpu").forward.scorer is read_scorer()
    monkeypatch.setattr(link_scorer, "GENERAL_SCORER", Path("missing.safetensors"))
    with pytest.raises(ModelError, match="no such file") as caught:
        load(toy_model, device="cpu")
    assert (caught.value.file, caught.value.hint) == ("missing.safetensors", "install extract-align again")


@pytest.mark.filterwarnings("ignore::align.core.types.TextWarning")
def test_examples_are_shares_and_labels(folders: tuple[Path, Path]) -> None:
    forward, reverse = (load(str(folder), device="cpu", scorer=None) for folder in folders)
    aligner = two_way(forward, reverse).fixed(PAIRS)
    longer = Pair(("a",) * 61, ("b",), 99)
    labelled = [(pair, {(0, 0): 0.75} if not pair.blank else {}) for pair in [*PAIRS, longer]]
    examples = list(read_examples(aligner, labelled))
    assert len(examples) == sum(not pair.blank for pair in PAIRS)
    for example, pair in zip(examples, (pair for pair in PAIRS if not pair.blank), strict=True):
        shape = len(pair.target), len(pair.source)
        assert (tuple(example.forward.shape), tuple(example.labels.shape)) == (shape, shape)
        assert example.reverse is not None
        assert tuple(example.reverse.shape) == shape[::-1]
        assert float(example.labels[0, 0]) == float(example.labels.sum()) == 0.75
        soft = soft_scores(example.forward.float()[None], example.reverse.float()[None])[0]
        by_aligner = replace(aligner, threshold=0.01).align(pair.source, pair.target).scores
        for (i, j), score in by_aligner.items():
            assert float(soft[j, i]) == pytest.approx(score, abs=0.01)


def test_a_scorer_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / SCORER_FILE
    path.write_bytes(scorer_bytes(network_of(), {"model": "m", "position": "both"}))
    scorer = read_scorer(path)
    assert scorer.about == {"format": FORMAT, "model": "m", "position": "both"}
    assert len(scorer.digest) == 7
    weights = network_of().state_dict()
    assert all(torch.equal(weight, weights[name]) for name, weight in scorer.network.state_dict().items())
    pickled = pickle.dumps(scorer)
    assert len(pickled) < 1000
    assert pickle.loads(pickled) is scorer  # of this process
    path.write_bytes(scorer_bytes(network_of(2), {"model": "m"}))
    with pytest.raises(ModelError, match="has changed"):
        pickle.loads(pickled.replace(scorer.digest.encode(), b"0123456"))


def changed(change: Callable[[dict[str, Any]], object], about: dict[str, str] | None = None) -> bytes:
    weights = {name: weight.clone() for name, weight in network_of().state_dict().items()}
    change(weights)
    return bytes(save(weights, {"format": FORMAT} if about is None else about))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff" * 100, "not a link scorer; it may be damaged"),
        (scorer_bytes(network_of(), {})[:-10], "not a link scorer; it may be damaged"),
        (changed(lambda weights: weights["enter.weight"].fill_(float("nan"))), "weights that are not finite"),
        (
            changed(lambda weights: None, {"format": "pt"}),
            "not a link scorer: its metadata do not say `format: extract-al",
        ),
        (
            changed(lambda weights: None, {"format": "extract-align scorer 1"}),
            "a link scorer of another version of extr",
        ),
        (b"0" * (LARGEST + 1), "not a link scorer: larger than 1,048,576 bytes"),
    ],
)
def test_damaged_scorers_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / SCORER_FILE
    path.write_bytes(content)
    with pytest.raises(ModelError, match=message) as caught:
        read_scorer(path)
    assert caught.value.file == str(path)
