"""Folders that cannot be read: what they hold is named, and what helps."""

from __future__ import annotations

import json
import random
import shutil
import warnings
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from align import ModelOptions, load
from align.core.errors import DataError, KindError, ModelError
from tests.hostile.fuzz_hugging import damage_json
from tests.hub_models import find_model, write_model
from tests.hugging import change
from tests.integration.test_huggingface import marian

__all__ = ["marian"]


def refusal(folder: Path | str, **options: str) -> str:
    with pytest.raises(ModelError) as error:
        load(folder, options=ModelOptions(**options))  # type: ignore[arg-type]
    assert len(str(error.value)) < 700
    return str(error.value)


def test_types_of_model(marian: Path) -> None:
    change(marian, "config.json", model_type="gpt2")
    known = "bart, fsmt, gemma2, gemma3, gemma3_text, llama, m2m_100, marian, mbart, mistral, mt5, pegasus, qwen2"
    with pytest.raises(KindError, match=f"a model of type gpt2: supported types: {known}, qwen3, t5, umt5"):
        load(marian)


def test_a_vocabulary_and_merges_without_a_tokenizer_json(marian: Path) -> None:
    (marian / "source.spm").rename(marian / "merges.txt")
    change(marian, "config.json", model_type="bart")
    assert "in this folder: save_pretrained() of transformers' AutoTokenizer writes tokenizer.json" in refusal(marian)


def test_quantised_weights(marian: Path) -> None:
    weights = load_file(marian / "model.safetensors")
    names = [name for name in weights if name.endswith("fc1.weight")]
    save_file({**weights, **{name: weights[name].to(torch.int8) for name in names}}, marian / "model.safetensors")
    assert "weights and settings do not fit" in refusal(marian)
    change(marian, "config.json", quantization_config={"quant_method": "gptq"})
    message = "its weights are quantised (gptq), which is not supported: use the model that they were made of"
    assert message in refusal(marian)


def test_a_tokenizer_json_that_surrounds_a_source_differently(tmp_path: Path) -> None:
    """Another class is read where its file says that text looks as the model's does, and refused where it does not."""
    model = find_model("google/mt5-small").with_pieces(1200)
    write_model(model, tmp_path)
    change(tmp_path, "tokenizer_config.json", tokenizer_class="AlbertTokenizer")
    recorder = load(tmp_path).forward.recorder
    assert recorder.languages == ("source", "target")
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    end = {"SpecialToken": {"id": "</s>", "type_id": 0}}
    content["post_processor"]["single"].insert(0, end)
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    message = refusal(tmp_path)
    assert "tokenizer.json surrounds a source with the ids [[1], [1]], its settings with [[], [1]]" in message


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Folders with each kind of JSON file but tokenizer.json, which a library reads: those of OPUS-MT, M2M100, NLLB."""
    root = tmp_path_factory.mktemp("sound")
    for name in ("Helsinki-NLP/opus-mt-de-en", "facebook/m2m100_418M", "facebook/nllb-200-distilled-600M"):
        folder = root / name.partition("/")[2]
        write_model(find_model(name).with_pieces(300), folder)
        (folder / "tokenizer.json").unlink(missing_ok=True)
        added = {"250": {"content": "deu_Latn", "special": True}, "261": {"content": "<br>", "special": False}}
        if name.startswith("facebook/nllb"):
            change(folder, "tokenizer_config.json", added_tokens_decoder=added)
            (folder / "added_tokens.json").write_text(json.dumps({"<mask>": 41, "<ph>": 260}))
    return sorted(root.iterdir())


@given(st.randoms(use_true_random=False), st.integers(0, 2), st.integers(1, 3))
@settings(max_examples=150)
def test_damaged_settings_are_read_or_refused(sound: list[Path], rng: random.Random, kind: int, count: int) -> None:
    languages = ModelOptions(*(("de", "en"), ("deu_Latn", "eng_Latn"), ("de", "en"))[kind])
    with TemporaryDirectory() as root, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(shutil.copytree(sound[kind], Path(root, "damaged")))
        for _ in range(count):
            damage_json(rng.choice(sorted(folder.glob("*.json"))), rng)
        with suppress(DataError):
            aligner = load(folder, options=languages, layer=1, head=1, output_layer=1, output_head=1)
            list(aligner([("das ist", "this is")]))
