"""`eval/run.py encoder` on a tiny encoder: its tables agree with aligners, and its variants with plain definitions."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import cosine_similarity

from align import ModelOptions, aer, count_all, load, read_gold, read_text
from align.core.scores import PAD
from align.core.types import Batch
from tests.conftest import needs_int8
from tests.eval.conftest import CONFIG, Result, read_table
from tests.hugging_encoders import save_adapter, save_encoder

pytestmark = pytest.mark.usefixtures("one_thread")
Command = Callable[..., Result]

LANGUAGES = """
[encoder.first]
gold = ["toy", "more"]
train = "toy"
models = ["models/one"]
reverse_models = ["models/back"]

[encoder.second]
gold = ["third"]
unspaced = "toy"
"""
"""Two languages; all gold is the same."""


@pytest.fixture
def tables(data: Path, command: Command) -> Callable[..., dict[str, list[dict[str, str]]]]:
    """Writes some tables of an encoder whose pieces are words and letters, and returns their rows."""
    pytest.importorskip("transformers")
    pytest.importorskip("icu4py", reason="cuts Japanese")
    save_encoder(data / "models" / "bert")
    with (data / "experiments.toml").open("a", encoding="utf-8") as config:
        about = CONFIG[CONFIG.index("[gold.toy]") : CONFIG.index("[train.toy]")]
        config.write(LANGUAGES + "".join(about.replace("toy", name, 1) for name in ("more", "third")))

    def write(*names: str, options: str = "") -> dict[str, list[dict[str, str]]]:
        usual = "--data . --config experiments.toml -m models/bert --unlabelled 60"
        result = command("encoder", *names, *usual.split(), *options.split())
        assert result.code == 0, result.err
        found = {}
        for path in Path("results").glob("encoder.*.tsv"):
            sign, found[path.name.split(".")[1]] = read_table(path)
            assert sign.startswith("# encoder|encoder:bert@")
        return found

    return write


def test_layers_are_those_of_aligners(tables: Callable[..., dict[str, list[dict[str, str]]]]) -> None:
    found = tables("layers")
    texts = [f"{name}, {kind}" for kind in ("gold", "training text") for name in ("first", "second")]
    assert [row["text"] for row in found["layers"]] == [text for text in texts for _ in range(3)]
    pairs = read_text("gold.de", "gold.en")
    gold = read_gold(Path("gold.talp"), format="talp", base=1, text=pairs).pairs
    for n, row in enumerate(found["layers"][3:6], 1):
        links = [alignment.links for alignment in load("models/bert", layer=n)(pairs)]
        assert float(row["aer"]) == pytest.approx(100 * aer(count_all(links, gold).sum(0)), abs=0.01)
        product = float(row["consistency"]) * float(row["agreement"])
        assert float(row["product"]) == pytest.approx(product, abs=2e-4)
    assert {row["aer"] for row in found["layers"][6:]} == {"n/a"}
    by_product = [[float(row["product"]) for row in found["layers"] if row["text"] == text] for text in texts]
    rates = [float(row["aer"]) for row in found["layers"][3:6]]
    choices = {row["text"]: row for row in found["choice"]}
    assert [int(choices[text]["chosen"]) for text in texts] == [of.index(max(of)) + 1 for of in by_product]
    assert int(choices["second, gold"]["best"]) == rates.index(min(rates)) + 1
    assert -1 <= float(choices["second, gold"]["rho"]) <= 1
    assert len(choices) == len(found["choice"]) == 6


@needs_int8
def test_ways_and_systems(tables: Callable[..., dict[str, list[dict[str, str]]]]) -> None:
    pytest.importorskip("eflomal")
    found = tables("pooling", "temperature", "variants", "systems")
    sets = ("aer_toy", "aer_more", "aer_first", "aer_third")
    for name, rows in found.items():
        first, segmented = rows[0], rows[3]
        assert (first["p_first"], (segmented if name == "systems" else first)["p_second"]) == ("n/a", "n/a")
        assert len({rows[0][key] for key in sets}) == 1
    pooling = [row["pooling"].rpartition(",")[0] for row in found["pooling"][:4]]
    assert pooling == ["mean", "mean, not centred", "maximum", "first piece"]
    as_read = {tuple(found[name][0][key] for key in sets) for name in found}
    assert len(as_read) == 1  # each table begins with what an aligner does
    systems = [row["system"].partition(":")[0] for row in found["systems"]]
    kinds = ["models/bert, float32", "models/bert, bfloat16", "models/bert, int8", "models/bert, --words segmented"]
    assert list(dict.fromkeys(systems)) == [*kinds, "eflomal on these pairs", "eflomal on more text"]
    assert found["systems"][0]["p_second"] != "n/a"  # text without spaces is compared with what reads it so
    assert found["systems"][-1]["aer_third"] == found["systems"][-1]["aer_more"]  # links of pieces, as of words


def test_ensembles(tables: Callable[..., dict[str, list[dict[str, str]]]]) -> None:
    rows = tables("ensembles")["ensembles"]
    models = ("one", "one without scorer", "one and back")
    expected = [(model, voices) for model in models for voices in ("nothing", "encoder")]
    assert [(row["model"], row["with"]) for row in rows] == expected  # GIZA++ is not installed
    assert [row["p"] == "n/a" for row in rows] == [True, False] * 3


def test_an_experiment_is_measured_by_itself(tables: Callable[..., dict[str, list[dict[str, str]]]]) -> None:
    assert tables("ensembles", "--experiment", "toy") == {}  # those of all languages stay as they are
    sign, rows = read_table(Path("results", "toy_encoder.ensembles.tsv"))
    assert sign.startswith("# toy_encoder|encoder:bert@")
    assert [row["model"] for row in rows[::2]] == [
        f"{model}{kind}" for model in ("one", "two") for kind in ("", " without scorer", " and back")
    ]
    assert list(rows[0])[2] == "aer_toy"


def test_speed(data: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("eflomal")
    save_encoder(data / "models" / "bert")
    encoder, programs = import_module("eval.encoder"), import_module("eval.programs")
    monkeypatch.setattr(encoder, "run_statistical", lambda tool, text: programs.Timed(0, 2.0, 0))
    monkeypatch.setattr(encoder, "run_ours", lambda options, text: programs.Timed(0, 5.0, 0))
    options = "encoder speed --data . -s gold.de -t gold.en -m models/bert --lines 20 --rounds 2"
    result = command(*options.split())
    assert result.code == 0, result.err
    sign, rows = read_table(Path("results", "encoder.speed.tsv"))
    assert sign.startswith("# python eval/run.py encoder speed -s gold.de -t gold.en --lines 20 --rounds 2; ")
    assert [(row["system"], row["rate"], row["ratio"]) for row in rows] == [
        ("eflomal", "10", "1.0"),
        *((f"models/bert, {dtype}", "4", "2.5") for dtype in ("float32", "bfloat16", "int8")),
    ]
    script = "import time; memory = bytearray(b'1') * 200_000_000; time.sleep(1)"
    run = encoder.measure(lambda: programs.run_python(["-c", script]))
    assert run.peak > 200  # with what else this process has started
    assert "tables are layers, " in command(*options.replace("speed", "magic").split()).err


def test_variants_are_as_defined() -> None:
    """Word scores of two pairs, one with padding, against loops over words."""
    torch.manual_seed(1)
    both = torch.randn(2, 6, 4), torch.randn(2, 4, 4)
    source_words = torch.tensor([[-1, 0, 0, 1, 2, -1], [-1, 0, 1, 1, -1, PAD]])
    target_words = torch.tensor([[0, 1, 1, 2], [0, 0, 1, PAD]])
    batch = Batch(source_words, source_words, target_words, target_words, (3, 3))

    def of_sides(x: torch.Tensor, y: torch.Tensor, sources: int, targets: int) -> list[tuple[Any, Any, int]]:
        return [(x, source_words, sources), (y, target_words, targets)]

    states = import_module("eval.encoder").States(both, batch)
    found = {name: getattr(states, name)() for name in ("mean", "maximum", "first")}
    found |= {"not centred": states.mean(0), "all": states.mean(1)}
    for b, (sources, targets) in enumerate(((3, 3), (2, 2))):
        x, y = both[0][b], both[1][b]
        firsts = [[side[words[b] == k][0] for k in range(n)] for side, words, n in of_sides(x, y, sources, targets)]
        means = [[side[words[b] == k].mean(0) for k in range(n)] for side, words, n in of_sides(x, y, sources, targets)]
        middle, first = (torch.stack([*some[0], *some[1]]).mean(0) for some in (means, firsts))
        for i in range(sources):
            for j in range(targets):
                of_source, of_target = x[source_words[b] == i], y[target_words[b] == j]
                expected = {
                    "not centred": cosine_similarity(of_source.mean(0), of_target.mean(0), 0),
                    "maximum": cosine_similarity(of_source[:, None], of_target[None], 2).max(),
                    "first": cosine_similarity(of_source[0] - first / 2, of_target[0] - first / 2, 0),
                    "mean": cosine_similarity(of_source.mean(0) - middle / 2, of_target.mean(0) - middle / 2, 0),
                    "all": cosine_similarity(of_source.mean(0) - middle, of_target.mean(0) - middle, 0),
                }
                for name, cosine in expected.items():
                    assert found[name][b, j, i] == pytest.approx(float(torch.exp((cosine - 1) / 0.1)), rel=1e-4), name


def test_adapters_are_compared_with_none(tables: Callable[..., dict[str, list[dict[str, str]]]]) -> None:
    save_adapter(Path("mine"), load_file("models/bert/model.safetensors"))
    none, mine, same = tables("adapters", options="--adapter mine=mine --adapter again=none")["adapters"]
    assert (none["adapter"], mine["adapter"], same["adapter"]) == ("none", "mine", "again")
    pairs = read_text("gold.de", "gold.en")
    gold = read_gold(Path("gold.talp"), format="talp", base=1, text=pairs).pairs
    for row, option in ((none, "none"), (mine, "mine"), (same, "none")):
        links = [alignment.links for alignment in load("models/bert", options=ModelOptions(adapter=option))(pairs)]
        assert float(row["aer_third"]) == pytest.approx(100 * aer(count_all(links, gold).sum(0)), abs=0.05)
    assert none["aer_third"] != mine["aer_third"]
    assert (none["p_second"], same["p_second"]) == ("n/a", "1.0000")
