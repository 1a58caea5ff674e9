"""`eval/run.py learnt`: what it reads off models is theirs; it learns what it is shown."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from align import Aligner, Pair, load, two_way
from align.core.merging import NULL, PAD, collate
from align.core.types import Cell, Place
from align.models.fairseq.dictionary import EOS
from tests import corpora
from tests.eval.conftest import Result, read_table
from tests.eval.test_variants import rate

pytestmark = pytest.mark.usefixtures("one_thread")

PLACE = Place(Cell(1, 1), Cell(2, "all"))


@pytest.fixture
def learnt(door: Any) -> Any:
    return importlib.import_module("learnt")


@pytest.fixture
def network(door: Any) -> Any:
    return importlib.import_module("learnt_network")


@pytest.fixture
def models(data: Path) -> tuple[Aligner, Aligner]:
    one, back = (load(data / "models" / name, device="cpu") for name in ("one", "back"))
    return one, back


@pytest.fixture
def directions(models: tuple[Aligner, Aligner], learnt: Any) -> list[Any]:
    return [learnt.LearntDirection(model.forward.recorder, PLACE) for model in models]


def test_its_table_has_the_default_and_each_seed(
    data: Path, command: Callable[..., Result], models: tuple[Aligner, Aligner]
) -> None:
    options = ("--data", data, "--config", data / "experiments.toml", "--pairs", "100", "--seeds", "2")
    result = command("learnt", *options, "toy")
    assert result.code == 0, result.err
    sign, rows = read_table(data / "results" / "toy.learnt.tsv")
    assert sign.startswith("# learnt|toy|gold:toy|fairseq:de-en@")
    assert "|pairs:100|" in sign
    assert sign[2:] in result.out
    links = ["default", *(f"learnt, seed {seed}" for seed in range(2))]
    assert [(row["models"], row["links"]) for row in rows] == [(n, link) for n in ("one", "two") for link in links]
    text = corpora.word_by_word(360)[:60]
    assert rows[0]["aer_toy"] == rate(models[0](text))
    assert rows[3]["aer_toy"] == rate(two_way(*models)(text))


def test_no_pair_that_is_measured_is_learnt_from(data: Path, learnt: Any) -> None:
    common = importlib.import_module("common")
    config = common.read_config(data / "experiments.toml")
    text = common.read_text(config, ["toy"], data)
    about = config["train"]["toy"]
    train = list(common.read_train(about, data, tokenize=False))
    known = {(pair.source, pair.target) for pair in text.pairs}
    with (data / "train.de").open("a") as source, (data / "train.en").open("a") as target:
        for pair in text.pairs:
            source.write(" ".join(pair.source).upper() + "\n")
            target.write(" ".join(pair.target).upper() + "\n")
    with (data / "train.source").open("a") as labels:
        labels.write("good-1\n" * len(text.pairs))
    drawn = learnt.draw(about, data, text, 10_000)
    assert sorted(pair.id for pair in drawn) == [pair.id for pair in train if (pair.source, pair.target) not in known]
    assert learnt.draw(about, data, text, 7) == drawn[:7]


def test_states_and_attention_are_the_model_s_own(models: tuple[Aligner, Aligner], learnt: Any) -> None:
    recorder: Any = models[0].forward.recorder
    pairs = corpora.word_by_word(5)
    batch = collate([recorder.encode(pair) for pair in pairs], recorder.pad)
    states = learnt.States(recorder)
    for ours, own in zip(states.record(batch, [1, 2]), recorder.record(batch, [1, 2]), strict=True):
        torch.testing.assert_close(ours.weights, own.weights)
    module = recorder.own_model().eval()
    for n, pair in enumerate(pairs):
        pieces = recorder.encode(pair)
        source, steps = torch.tensor([pieces.source]), torch.tensor([[EOS, *pieces.target]])
        with torch.no_grad():
            encoded = module.encoder(source)
            layers = module.decoder.extract_features(steps, encoder_out=encoded)[1]["inner_states"]
        length, count = len(pieces.source), len(pieces.target) + 1
        torch.testing.assert_close(states.encoder[n, :length], encoded["encoder_out"][0][:, 0], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(states.decoder[n, :count], layers[1][:, 0], atol=1e-5, rtol=1e-4)


def test_words_are_means_of_their_pieces(learnt: Any) -> None:
    words = torch.tensor([[0, 0, 1, NULL], [0, NULL, PAD, PAD]])
    states = torch.arange(8.0).view(2, 4, 1)
    pieces = torch.tensor([[5, 6, 7, 2], [8, 2, 1, 1]])
    found = learnt.words_of(states, words, pieces, words, 2)
    assert found.vectors[..., 0].tolist() == [[3, 0.5, 2], [5, 4, 0]]
    assert found.there.tolist() == [[True, True, True], [True, True, False]]
    assert found.parts.tolist() == [
        [[0, 0, 0, 1], [0.5, 0.5, 0, 0], [0, 0, 1, 0]],
        [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]],
    ]


@pytest.mark.parametrize("count", [1, 2])
def test_it_learns_the_links_that_it_is_shown(directions: list[Any], learnt: Any, network: Any, count: int) -> None:
    """Each word with the one in its place, but for `das`, which has none."""
    pairs = corpora.word_by_word(900)
    material = []
    for numbers, both in learnt.samples(directions, pairs):
        sample = both[count - 1]
        for n, links in zip(numbers, sample.links, strict=True):
            links.zero_()
            for i, word in enumerate(pairs[n].source):
                links[i, i] = word != "das"
        material.append(sample)
    torch.manual_seed(0)
    net = network.Network((16, 16), (14, 16))
    network.train(net, material * 15, seed=0)
    text = [*corpora.word_by_word(20, seed=2), Pair((), ("the",), 21)]
    found = learnt.links_of(net, ((n, both[count - 1]) for n, both in learnt.samples(directions, text)), text)
    wanted = [{(i, i) for i, word in enumerate(pair.source) if word != "das"} for pair in text]
    wrong = sum(len(set(a) ^ b) for a, b in zip(found, wanted, strict=True))
    assert wrong <= 0.05 * sum(map(len, wanted))
    assert found[-1] == frozenset()


def test_pads_and_neighbours_change_no_score(directions: list[Any], learnt: Any, network: Any) -> None:
    pairs = corpora.word_by_word(12)
    net = network.Network((16, 16), (14, 16))

    def scores(some: list[Pair]) -> dict[int, tuple[torch.Tensor, torch.Tensor]]:
        found = {}
        for numbers, both in learnt.samples(directions, some):
            by_models = [net.scores(sample.source, sample.target) for sample in both]
            found |= zip(numbers, zip(*by_models, strict=True), strict=True)
        return found

    for n, together in scores(pairs).items():
        size = len(pairs[n].target), len(pairs[n].source)
        for ours, alone in zip(together, scores([pairs[n]])[0], strict=True):
            torch.testing.assert_close(ours[: size[0], : size[1]], alone, atol=1e-3, rtol=0)
