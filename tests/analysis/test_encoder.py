"""BERT-like encoders: attention, norms and vectors as computed naively; and folders that are damaged."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from align.analysis.maps import SPECIAL
from align.analysis.models.encoder import KINDS, load_encoder, load_model, load_tokenizer
from align.core.errors import ModelError
from align.core.types import Pair
from tests.hugging import change
from tests.hugging_encoders import save_encoder

pytest.importorskip("transformers")

PAIRS = [
    Pair(("The", "old", "house", "."), ("it", "is", "bigger"), 1),
    Pair(("we", "see"), (), 2),
    Pair((), (), 3),
    Pair(("houses", "now"), ("and", "old"), 4),
    Pair(("house",) * 60, (), 5),
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A folder with an encoder of a kind."""
    root = tmp_path_factory.mktemp("encoders")
    return lambda kind: root / kind if (root / kind).exists() else save_encoder(root / kind, kind)


def naive(model: Any, kind: str, ids: list[int], segments: list[int]) -> tuple[list[Any], list[Any], Any]:
    """Weights `[H, T, S]`, vectors f(x) `[H, S, D]` of each layer, and all vectors `[L+1, S, D]`, by the definition."""
    names = {} if kind == "distilbert" else {"token_type_ids": torch.tensor([segments])}
    with torch.no_grad():
        out = model(input_ids=torch.tensor([ids]), **names, output_hidden_states=True)
        found_weights, found_vectors = [], []
        for layer, x in zip(model.get_submodule(KINDS[kind].layers), out.hidden_states, strict=False):
            if kind == "distilbert":
                own = layer.attention
                query, key, value, dense = own.q_lin, own.k_lin, own.v_lin, own.out_lin
            else:
                own, dense = layer.attention.self, layer.attention.output.dense
                query, key, value = own.query, own.key, own.value
            weights, vectors = [], []
            size = x.shape[2] // 4
            for h in range(4):
                mine = slice(h * size, (h + 1) * size)
                q, k, v = (linear(x[0])[:, mine] for linear in (query, key, value))
                weights.append((q @ k.T / size**0.5).softmax(-1))
                vectors.append(v @ dense.weight[:, mine].T)
            found_weights.append(torch.stack(weights))
            found_vectors.append(torch.stack(vectors))
    return found_weights, found_vectors, torch.cat(out.hidden_states)


@pytest.mark.parametrize("kind", KINDS)
def test_attention_and_norms_are_those_of_the_definition(kind: str, folders: Callable[[str], Path]) -> None:
    folder = folders(kind)
    model = load_encoder(folder)
    readings = list(model.read(PAIRS, ["encoder"]))
    states = list(model.states(PAIRS))
    assert [bool(maps) for maps in readings] == [True, True, False, True, False]
    assert [bool(one) for one in states] == [True, True, False, True, False]
    assert model.shape == {"encoder": (3, 4)}
    own, _ = load_model(folder)
    tokenizer = load_tokenizer(folder, own.config.vocab_size)
    for pair, reading, one in zip(PAIRS, readings, states, strict=True):
        if not reading or not one:
            continue
        maps = reading["encoder"]
        second = list(pair.target) or None
        found = tokenizer.encode(list(pair.source), second, is_pretokenized=True)
        weights, vectors, hidden = naive(own, kind, found.ids, found.type_ids)
        assert one[0] == maps.rows == maps.columns
        assert maps.rows.pieces == tuple(found.tokens)
        assert maps.rows.text == (*pair.source, *pair.target)
        torch.testing.assert_close(torch.tensor(one[1]), hidden, atol=1e-5, rtol=1e-4)
        for n in range(3):
            weighted = weights[n][..., None] * vectors[n][:, None]  # [H, T, S, D]
            for mine, theirs in (
                (maps.weights[n], weights[n]),
                (maps.vectors[n], vectors[n].norm(dim=-1)),
                (maps.norms[n], weighted.norm(dim=-1)),
            ):
                torch.testing.assert_close(torch.tensor(mine), theirs, atol=1e-4, rtol=1e-3)


def test_words_are_the_users_own(folders: Callable[[str], Path]) -> None:
    (reading,) = load_encoder(folders("bert")).read([PAIRS[0]], ["encoder"])
    rows = reading["encoder"].rows
    pieces = ("[CLS]", "the", "old", "house", ".", "[SEP]", "it", "is", "big", "##g", "##e", "##r", "[SEP]")
    assert rows.pieces == pieces
    assert rows.words == (SPECIAL, 0, 1, 2, 3, SPECIAL, 4, 5, 6, 6, 6, 6, SPECIAL)
    (reading,) = load_encoder(folders("roberta")).read([PAIRS[0]], ["encoder"])
    rows = reading["encoder"].rows
    assert [piece for piece in rows.pieces if piece.startswith("Ġ")] == ["Ġ", "Ġo", "Ġh", "Ġ", "Ġi", "Ġi", "Ġb"]
    assert rows.words.count(SPECIAL) == 4


@pytest.mark.parametrize(
    ("kind", "module"),
    [
        ("bert", "BertForPreTraining"),
        ("distilbert", "DistilBertForMaskedLM"),
        ("xlm-roberta", "XLMRobertaForSequenceClassification"),
    ],
)
def test_weights_of_heads_may_be_left_over(kind: str, module: str, tmp_path: Path) -> None:
    assert load_encoder(save_encoder(tmp_path, kind, module)).shape == {"encoder": (3, 4)}


def change_config(**changes: Any) -> Callable[[Path], None]:
    return lambda folder: change(folder, "config.json", **changes)


VALUE = "encoder.layer.1.attention.self.value.bias"


def drop_value(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights[VALUE]
    save_file(weights, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (change_config(hidden_size=20), "embeddings.LayerNorm.bias does not have the size that its settings give"),
        (change_config(hidden_act="exec"), "config.json: its hidden_act is 'exec', not one of gelu"),
        (drop_value, f"it has no {VALUE}"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "no tokenizer.json in this folder"),
    ],
)
def test_damaged_folders(
    spoil: Callable[[Path], object], message: str, tmp_path: Path, folders: Callable[[str], Path]
) -> None:
    folder = tmp_path / "bert"
    shutil.copytree(folders("bert"), folder)
    spoil(folder)
    with pytest.raises(ModelError, match=re.escape(message)):
        load_encoder(folder)
