"""Hugging Face model folders damaged at random, each loaded in a process of its own.

What must come of any is what `fuzz_models` asks for, with the name of the folder, or of a file in it, in the message.
"""

from __future__ import annotations

import json
import pickle
import random
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from tests import hugging
from tests.hostile import driver, fuzz_models
from tests.hostile.code import repacked
from tests.hostile.driver import Case

LANGUAGES = {
    "added": ("deu_Latn", "eng_Latn"),
    "m2m_100": ("deu_Latn", "eng_Latn"),
    "mbart-50": ("deu_Latn", "eng_Latn"),
    "mbart": ("de_DE", "en_XX"),
}
"""Of the sound folders, those that need others than de and en."""

DTYPES = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float16, torch.int8, torch.uint8, torch.bool, torch.complex64)

WAYS = ("json", "json", "json", "bytes", "header", "weights", "pickle", "paths")
"""The ways in which folders are damaged, some more often than others."""


def save_sound(root: Path) -> Mapping[str, Path]:
    """A sound folder with each kind of file that such models have."""
    from safetensors.torch import load_file

    kinds = ("marian", "fsmt", "m2m_100", "mbart-50", "t5", "bart", "mbart")
    for kind in kinds:
        hugging.save_model(kind, root / kind, size=300 if kind == "mbart" else 0)
    (root / "mbart" / "tokenizer.json").unlink()
    hugging.train_pieces(root / "mbart" / "sentencepiece.bpe.model")
    torch.save(load_file(root / "bart" / "model.safetensors"), root / "bart" / "pytorch_model.bin")
    (root / "bart" / "model.safetensors").unlink()
    return {kind: root / kind for kind in (*kinds, save_with_added_tokens(root), save_with_adapter(root))}


def save_with_added_tokens(root: Path) -> str:
    """An NLLB whose files define ids beside its sentencepiece model's; returns its name."""
    folder = root / "added"
    hugging.save_model("m2m_100", folder, size=300)
    (folder / "tokenizer.json").unlink()
    hugging.train_pieces(folder / "sentencepiece.bpe.model")
    added = {"<mask>": 41, "deu_Latn": 250, "eng_Latn": 251, "<ph>": 260}
    (folder / "added_tokens.json").write_text(json.dumps(added))
    decoder = {"250": {"content": "deu_Latn", "special": True}, "261": {"content": "<br>", "special": False}}
    content = {"tokenizer_class": "NllbTokenizer", "added_tokens_decoder": decoder}
    (folder / "tokenizer_config.json").write_text(json.dumps(content))
    return folder.name


def save_with_adapter(root: Path) -> str:
    """A Marian model with a LoRA adapter in its folder; returns its name."""
    from safetensors.torch import load_file, save_file

    folder = root / "adapter"
    hugging.save_model("marian", folder)
    weights = load_file(folder / "model.safetensors")
    stored = {}
    for name in ("model.decoder.layers.0.encoder_attn.q_proj", "model.encoder.layers.0.fc1"):
        rows, columns = weights[f"{name}.weight"].shape
        stored[f"base_model.model.{name}.lora_A.weight"] = torch.ones(2, columns)
        stored[f"base_model.model.{name}.lora_B.weight"] = torch.ones(rows, 2)
    save_file(stored, folder / "adapter_model.safetensors")
    settings = {"peft_type": "LORA", "lora_alpha": 4, "base_model_name_or_path": "some/model", "use_rslora": False}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    return folder.name


def values(rng: random.Random) -> Any:
    """Something that does not belong there, as far as JSON has it."""
    deep: Any = []
    for _ in range(300):
        deep = [deep]
    return rng.choice(
        [
            *(None, True, False, 0, -1, 1, 2, 3, 7, 40, 1000, 65_536, 10**6, 10**9, 2**31, 2**63, 10**20, -(10**20)),
            *(0.5, 4.0, 1e308, float("nan"), float("inf"), "", "4", "a" * 10**5, "../../etc/passwd", "/dev/zero"),
            *("\x1b[31m\u202e", "\ud800", "\0", "</s>", "<unk>", "(a+)+$", [], {}, [[]], [4] * 1000, deep),
            *({"a": deep}, {"layers": 10**9}, ["a", 1], [["a", 0.0]] * 3, {"</s>": -1}, {"type": "BPE"}),
        ]
    )


def damage_json(path: Path, rng: random.Random) -> None:
    """Put something else in a place of a document, take a part out, or call it something else."""
    content = json.loads(path.read_text(encoding="utf-8"))
    place = content
    while isinstance(place, (dict, list)) and place:
        key: Any = rng.choice(list(place)) if isinstance(place, dict) else rng.randrange(len(place))
        if isinstance(place[key], (dict, list)) and place[key] and rng.random() < 0.8:
            place = place[key]
            continue
        action = rng.randrange(6)
        if action == 0:
            del place[key]
        elif action == 1 and isinstance(place, dict):
            place[rng.choice(["more", "", "a" * 10**5, "<unk>", "\0"])] = place.pop(key)
        elif action == 2 and isinstance(place, list):
            place *= rng.choice([2, 50])
        else:
            place[key] = values(rng)
        break
    path.write_text(json.dumps(content), encoding="utf-8")


def damage_header(path: Path, rng: random.Random) -> None:
    """Change what a file of safetensors says of its weights."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = path.with_name("header")
    header.write_bytes(content[8 : 8 + length])
    for _ in range(rng.choice([1, 1, 3])):
        damage_json(header, rng)
    changed = header.read_bytes()
    header.unlink()
    said = rng.choice([len(changed)] * 8 + [0, 2**63, len(changed) - 1, 10**9])
    path.write_bytes(struct.pack("<Q", said) + changed + content[8 + length :])


def damage_weights(path: Path, rng: random.Random) -> None:
    """Other weights, in either format."""
    from safetensors.torch import load_file, save_file

    packed = path.suffix == ".safetensors"
    state = {"model": load_file(path) if packed else torch.load(path, weights_only=True)}
    for _ in range(rng.choice([1, 1, 2, 5])):
        fuzz_models.damage_weight(state, rng)
    name = rng.choice(list(state["model"]))
    weight = state["model"][name]
    if rng.random() < 0.3 and isinstance(weight, torch.Tensor) and weight.is_floating_point():
        state["model"][name] = weight.to(rng.choice(DTYPES))
    if not packed:
        torch.save(state["model"], path)
        return
    dense = {
        str(name)[:1000]: weight.contiguous()
        for name, weight in state["model"].items()
        if isinstance(weight, torch.Tensor) and weight.layout is torch.strided and weight.numel() < 10**7
    }
    save_file({name: weight.clone() for name, weight in dense.items() if weight.device.type == "cpu"}, path)


def damage(folder: Path, rng: random.Random) -> str:
    """Damage a sound folder in one of WAYS; returns in which."""
    way = rng.choice(WAYS)
    files = sorted(path for path in folder.iterdir() if path.is_file())
    weights = rng.choice([path for path in files if path.suffix in (".safetensors", ".bin")])
    if way == "json":
        for _ in range(rng.choice([1, 1, 2, 4])):
            damage_json(rng.choice([path for path in files if path.suffix == ".json"]), rng)
    elif way == "bytes":
        fuzz_models.damage_bytes(rng.choice(files), rng)
    elif way == "paths":
        fuzz_models.damage_paths(folder, rng, [path.name for path in files])
    elif way == "weights":
        try:
            damage_weights(weights, rng)
        except (RuntimeError, ValueError, KeyError, AttributeError, UnicodeError, pickle.PicklingError):
            return "unsaved"
    elif weights.suffix == ".safetensors":
        damage_header(weights, rng)
        return "header"
    else:
        repacked(weights, fuzz_models.random_pickle(rng))
        return "pickle"
    return way


def hugging_case(root: Path) -> Case:
    """Return what damages one of these folders and loads it; works below a folder."""
    return fuzz_models.folder_case(save_sound(root / "sound"), root, damage, LANGUAGES)


def main() -> int:
    """Run from the command line."""
    with TemporaryDirectory() as temporary:
        return driver.main("hugging", hugging_case(Path(temporary)), 1000)


if __name__ == "__main__":
    sys.exit(main())
