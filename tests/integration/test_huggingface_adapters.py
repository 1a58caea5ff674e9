"""LoRA adapters beside their base model. The update is checked against the formula; that peft 0.21 merges the same was
checked once, for adapters of projections, of the table of pieces, with biases, and with pieces added before training.
"""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from align import ModelOptions, Pair, Search, TextWarning, load, translate
from align.core.errors import ModelError
from align.core.scores import collate
from align.models.folder import GENERAL_SCORER, SCORER_FILE
from align.models.link_scorer import LinkScorer
from tests.hub_models import find_model, write_model
from tests.hugging import change
from tests.integration.test_huggingface import cache, in_cache

__all__ = ["cache"]

pytestmark = pytest.mark.filterwarnings("ignore::align.core.types.TextWarning")

NAME = "facebook/nllb-200-distilled-600M"
OPTIONS = ModelOptions(source_lang="deu_Latn", target_lang="eng_Latn")
TARGETS = ("model.decoder.layers.1.encoder_attn.q_proj", "model.encoder.layers.0.fc1")
PAIR = Pair(("das", "ist", "alt"), ("this", "is", "old"), 1)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub") / "nllb"
    write_model(find_model(NAME).with_pieces(1200), folder)
    return folder


def write_adapter(folder: Path, base: Path, by_root: bool = False, **more: Any) -> dict[str, torch.Tensor]:
    """Write an adapter as peft does; returns the weights of the merged model."""
    weights = load_file(base / "model.safetensors")
    numbers = torch.Generator().manual_seed(1)
    stored = {}
    for name in TARGETS:
        rows, columns = weights[f"{name}.weight"].shape
        up, down = torch.randn(rows, 4, generator=numbers), torch.randn(4, columns, generator=numbers)
        stored |= {f"base_model.model.{name}.lora_A.weight": down, f"base_model.model.{name}.lora_B.weight": up}
        weights[f"{name}.weight"] = weights[f"{name}.weight"] + (16 / (math.sqrt(4) if by_root else 4)) * (up @ down)
    folder.mkdir(exist_ok=True)
    save_file(stored, folder / "adapter_model.safetensors")
    content = {"peft_type": "LORA", "r": 4, "lora_alpha": 16, "base_model_name_or_path": f"/elsewhere/{base.name}"}
    (folder / "adapter_config.json").write_text(json.dumps({**content, "use_rslora": by_root, **more}))
    return weights


@pytest.fixture
def adapter(base: Path, tmp_path: Path) -> Path:
    """An adapter, and its model next to it."""
    shutil.copytree(base, tmp_path / base.name)
    write_adapter(tmp_path / "adapter", base)
    return tmp_path / "adapter"


def attention(folder: Path) -> list[torch.Tensor]:
    recorder = load(folder, options=OPTIONS).forward.recorder
    recorded = recorder.record(collate([recorder.encode(PAIR)], recorder.pad), (1, 2, 3))
    return [layer.weights for layer in recorded]


@pytest.mark.parametrize("by_root", [False, True])
def test_it_is_merged_into_the_model_beside_it(base: Path, tmp_path: Path, by_root: bool) -> None:
    shutil.copytree(base, tmp_path / base.name)
    whole = Path(shutil.copytree(base, tmp_path / "merged"))
    save_file(write_adapter(tmp_path / "adapter", base, by_root), whole / "model.safetensors")
    found, expected = attention(tmp_path / "adapter"), attention(whole)
    assert all(map(torch.equal, found, expected))
    assert not all(map(torch.equal, found, attention(base)))
    names = {load(folder, options=OPTIONS).forward.recorder.name for folder in (base, tmp_path / "adapter")}
    assert len(names) == 2  # a fingerprint each
    sentence = ["das ist ein Satz"]
    one, other = ([a.pair.target for a in translate(load(f, options=OPTIONS), sentence, Search(beam=1, max_len_b=5))]
                  for f in (tmp_path / "adapter", whole))  # fmt: skip
    assert one == other


def test_it_has_its_own_scorer(adapter: Path, base: Path) -> None:
    shutil.copy(GENERAL_SCORER, adapter / SCORER_FILE)
    for folder, file in ((adapter, adapter / SCORER_FILE), (adapter.parent / base.name, GENERAL_SCORER)):
        scorer = load(folder, options=OPTIONS).forward.scorer
        assert isinstance(scorer, LinkScorer)
        assert scorer.path == file


def test_the_model_is_in_the_same_folder_or_on_the_hub(base: Path, tmp_path: Path, cache: Path) -> None:
    write_adapter(tmp_path / "adapter", base, base_model_name_or_path=NAME)
    with pytest.raises(ModelError, match=f"{NAME}: no such file or folder, not in the Hugging Face cache"):
        load(tmp_path / "adapter")
    in_cache(NAME, base, cache)
    expected = attention(tmp_path / "adapter")
    shutil.copytree(base, tmp_path / "adapter", dirs_exist_ok=True)
    shutil.rmtree(cache)
    with pytest.warns(TextWarning, match="the adapter in this folder is merged into the model in it: remove"):
        assert all(map(torch.equal, attention(tmp_path / "adapter"), expected))
    (tmp_path / "adapter" / "adapter_model.safetensors").unlink()  # settings that were left there
    assert all(map(torch.equal, attention(tmp_path / "adapter"), attention(base)))


def test_a_larger_table_of_pieces_and_a_tokenizer_with_another_language(base: Path, adapter: Path) -> None:
    path = adapter / "adapter_model.safetensors"
    table = load_file(base / "model.safetensors")["model.shared.weight"]
    larger = torch.cat((table, torch.ones(10, table.shape[1])))
    more = {"base_model.model.model.shared.weight": larger, "base_model.model.lm_head.weight": larger.clone()}
    save_file({**load_file(path), **more}, path)
    for name in ("sentencepiece.bpe.model", "tokenizer_config.json"):
        shutil.copyfile(base / name, adapter / name)
    (adapter / "added_tokens.json").write_text(json.dumps({"tyv_Cyrl": len(table) + 3}))
    options = ModelOptions(source_lang="tyv_Cyrl", target_lang="eng_Latn")
    recorder: Any = load(adapter, options=options).forward.recorder
    assert recorder.encode(PAIR).source[0] == len(table) + 3
    assert len(recorder.transformer.encoder.embedding.pieces) == len(larger)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"use_dora": True}, "a LoRA adapter with use_dora, which is not supported: merge it"),
    ({"peft_type": "IA3"}, "an adapter of type IA3, which is not supported: merge it"),
    ({"base_model_name_or_path": "/secret/model"}, "an adapter of /secret/model, .* not next to it: copy or link"),
    ({"base_model_name_or_path": ".."}, "an adapter of .., which is not next to it"),
]


@pytest.mark.parametrize(("settings", "message"), WRONG, ids=[message for _, message in WRONG])
def test_what_is_wrong_with_an_adapter_is_said(adapter: Path, settings: dict[str, Any], message: str) -> None:
    change(adapter, "adapter_config.json", **settings)
    with pytest.raises(ModelError, match=message):
        load(adapter, options=OPTIONS)


def test_weights_that_do_not_fit(adapter: Path) -> None:
    path = adapter / "adapter_model.safetensors"
    good = load_file(path)
    q = f"base_model.model.{TARGETS[0]}"
    for bad, message in (
        ({f"{q}.lora_B.weight": torch.ones(17, 4)}, "its factors of .*q_proj.weight do not fit"),
        ({f"{q}.lora_A.weight": None}, "its .*q_proj.lora_B.weight lacks its other factor"),
        ({f"{q}.bias": torch.ones(17)}, "it replaces .*q_proj.bias, which its model does not have"),
        ({"base_model.model.model.shared.weight": torch.ones(1406, 16)}, "it has a separate model.shared.*: merge it"),
    ):
        save_file({name: weight for name, weight in {**good, **bad}.items() if weight is not None}, path)
        with pytest.raises(ModelError, match=message):
            load(adapter, options=OPTIONS)
    path.rename(path.with_name("adapter_model.bin"))
    with pytest.raises(ModelError, match=r"an adapter without adapter_model\.safetensors; .*: merge it"):
        load(adapter, options=OPTIONS)
