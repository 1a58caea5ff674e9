"""Model folders that try to run code when they are loaded. What they run only makes a file, which must not appear."""

from __future__ import annotations

import builtins
import io
import os
import pickle
import shutil
import struct
import sys
import tarfile
import zipfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch

from align.models.fairseq.checkpoint import load_checkpoint

FOLDERS = "user_dir"
"""What a folder is called that some variants name as code of the user's."""


def expression(mark: Path) -> str:
    """Python that makes the file, whose value is None."""
    return f"[__import__('os').system('touch {mark}'), None][1]"


EVALUATED = {
    # in 0.12.2 each of these is evaluated when a model of this architecture is built
    "transformer": ("encoder_xformers_att_config", "decoder_xformers_att_config", "adaptive_softmax_cutoff"),
    "bart_base": ("encoder_xformers_att_config", "adaptive_softmax_cutoff"),
    "transformer_align": ("decoder_xformers_att_config",),
    "mbart_large": ("decoder_xformers_att_config",),
    "fconv": ("encoder_layers", "decoder_layers", "decoder_attention"),
    "fconv_self_att": ("pretrained", "encoder_layers", "encoder_attention", "decoder_attention", "self_attention"),
    "fconv_lm": ("decoder_layers", "decoder_attention"),
    "lstm": ("decoder_attention", "encoder_bidirectional", "adaptive_softmax_cutoff"),
    "lightconv": ("adaptive_softmax_cutoff", "encoder_kernel_size_list"),
    "lightconv_lm": ("adaptive_softmax_cutoff", "character_filters"),
    "transformer_lm": ("character_filters", "adaptive_softmax_cutoff"),
    "wav2vec": ("conv_feature_layers", "conv_aggregator_layers"),
    "wav2vec2": ("conv_feature_layers",),
    "hubert": ("conv_feature_layers",),
    "s2t_wav_transformer_base": ("conv_feature_layers",),
    "nonautoregressive_transformer": ("encoder_xformers_att_config",),
    "transformer_from_pretrained_xlm": ("encoder_xformers_att_config",),
    "convtransformer": ("conv_out_channels",),
}


def settings(folder: Path, mark: Path) -> Iterator[tuple[str, Callable[[dict[str, Any]], None]]]:
    """Changes to a checkpoint's state, by name: settings that fairseq evaluates, in each form that it saves them in."""

    def change(form: str, architecture: str, name: str) -> Callable[[dict[str, Any]], None]:
        def apply(state: dict[str, Any]) -> None:
            model = state["cfg"]["model"]
            for key in ("arch", "_name"):
                setattr(model, key, architecture)
            setattr(model, name, expression(mark))
            if form == "dict":
                state["cfg"]["model"] = vars(model)
            elif form == "args":
                state["args"], state["cfg"] = model, None

        return apply

    for architecture, names in EVALUATED.items():
        for name in names:
            for form in ("namespace", "dict", "args") if architecture == "transformer" else ("namespace",):
                yield f"{architecture} {name} {form}", change(form, architecture, name)


def tables(folder: Path, mark: Path) -> Iterator[tuple[str, Callable[[dict[str, Any]], None]]]:
    """Changes to a checkpoint's state beside its model's settings: tasks, optimisers, folders of code, targets."""
    code, user = expression(mark), str(folder / FOLDERS)

    def put(where: str, **values: Any) -> Callable[[dict[str, Any]], None]:
        def apply(state: dict[str, Any]) -> None:
            table = state["cfg"].setdefault(where, {})
            (vars(table) if isinstance(table, Namespace) else table).update(values)

        return apply

    for where in ("common", "task", "model"):
        yield f"{where} user_dir", put(where, user_dir=user)
    yield "adam betas", put("optimizer", _name="adam", adam_betas=code)
    yield "model overrides", put("common_eval", model_overrides=code)
    yield "task codes", put("task", _name="translation", eval_bleu=True, eval_bleu_args=code)
    yield "ctc", put("criterion", _name="ctc", wer_args=code)
    yield "hydra target", put("model", _target_="os.system", command=f"touch {mark}")
    yield "interpolation", put("model", encoder_layers="${oc.env:HOME}", decoder_embed_path="${oc.decode:" + code + "}")
    yield "nested encoder", put("model", encoder={"xformers_att_config": code, "layers": code})
    yield "nested decoder", put("model", decoder={"xformers_att_config": code, "layers_to_keep": code})
    yield "quantisation", put("model", quant_noise={"pq": code}, quant_noise_pq=code)
    yield "language", put("task", source_lang=f"de; touch {mark}", target_lang=f"$(touch {mark})")
    yield "architecture", put("model", _name=code, arch=code)
    yield "activation", put("model", activation_fn=code)
    yield "layers to keep", put("model", encoder_layers_to_keep=code, decoder_layers_to_keep=code)


class Reduced:
    """Pickled, a call of a function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def pickles(mark: Path) -> Iterator[tuple[str, bytes]]:
    """Pickles that call something when they are read."""
    import functools
    import importlib
    import subprocess

    from fairseq import utils

    command, code = f"touch {mark}", f"open({str(mark)!r}, 'w')"
    calls = {
        "os.system": Reduced(os.system, command),
        "eval": Reduced(eval, code),
        "Popen": Reduced(subprocess.Popen, ["touch", str(mark)]),
        "partial": Reduced(functools.partial(os.system, command)),
        "import": Reduced(importlib.import_module, FOLDERS),
        "getattr": Reduced(getattr, os, "system"),
        "fairseq's eval": Reduced(utils.eval_str_list, code),
        "path": Reduced(type(mark).touch, mark),
        "pickle": Reduced(pickle.loads, pickle.dumps(Reduced(os.system, command))),
    }
    for name, call in calls.items():
        try:
            yield name, pickle.dumps(call, 2)
        except (TypeError, AttributeError, pickle.PicklingError):  # modules cannot be pickled by name everywhere
            continue
    raw = command.encode()
    yield "protocol 4", pickle.dumps(calls["os.system"], 4)
    yield "protocol 0", pickle.dumps(calls["os.system"], 0)
    yield "inst", b"\x80\x02(S'" + raw + b"'\nios\nsystem\n."
    yield "obj", b"\x80\x02(cos\nsystem\nS'" + raw + b"'\no."
    yield "newobj", b"\x80\x02cos\nsystem\nX" + struct.pack("<I", len(raw)) + raw + b"\x85\x81."
    state = b"}X\x0c\x00\x00\x00__setstate__cos\nsystem\nsb"
    yield "setstate", b"\x80\x02cargparse\nNamespace\n)\x81" + state + b"X" + struct.pack("<I", len(raw)) + raw + b"b."
    yield "dotted", b"\x80\x04\x8c\x02os\x8c\x0bsys.modules\x93."
    yield "codec", b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x08\x00\x00\x00user_dir\x86R."
    yield (
        "numpy runstring",
        b"\x80\x02cnumpy.testing._private.utils\nrunstring\nX" + struct.pack("<I", len(raw)) + raw + b"}\x86R.",
    )


def repacked(checkpoint: Path, content: bytes) -> None:
    """Put another pickle into a checkpoint of the zip format."""
    packed = io.BytesIO(checkpoint.read_bytes())
    with zipfile.ZipFile(packed) as old, zipfile.ZipFile(checkpoint, "w", zipfile.ZIP_STORED) as new:
        for record in old.infolist():
            new.writestr(record.filename, content if record.filename.endswith("data.pkl") else old.read(record))


def files(folder: Path, mark: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Changes to a model folder's files."""
    checkpoint = folder / "checkpoint.pt"
    code = expression(mark)

    def write(name: str, text: str) -> Callable[[], object]:
        return partial((folder / name).write_text, text, encoding="utf-8")

    def tar() -> None:
        content = checkpoint.read_bytes()
        with tarfile.open(checkpoint, "w") as archive:
            for name, data in (("../../mark", b""), ("pickle", pickle.dumps(Reduced(os.system, f"touch {mark}")))):
                info = tarfile.TarInfo(name)
                info.size = len(data or content)
                archive.addfile(info, io.BytesIO(data or content))

    def torchscript() -> None:
        module = torch.jit.script(torch.nn.Linear(1, 1))
        torch.jit.save(module, str(checkpoint))

    for name, content in pickles(mark):
        yield f"zip pickle {name}", partial(repacked, checkpoint, content)
        yield f"plain pickle {name}", partial(checkpoint.write_bytes, content)
    yield "tar", tar
    yield "TorchScript", torchscript
    for table in ("text", "calibration"):
        yield f"toml {table}", write("model.toml", f'source = "de"\ntarget = "en"\n[{table}]\ncase = "{code}"\n')
    yield "toml source", write("model.toml", f'source = "{code}"\ntarget = "en"\n')
    yield "dictionary", write("dict.de.txt", f"{code} 1\n")
    yield "dictionary count", write("dict.de.txt", f"das {code}\n")
    yield "codes", write("codes.de", f"#version: {code}\na b\n")


def variants(folder: Path, mark: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Everything here, by name, as a function that turns a sound model folder into that hostile one."""

    def changed(change: Callable[[dict[str, Any]], None]) -> Callable[[], object]:
        def apply() -> None:
            state = load_checkpoint(folder / "checkpoint.pt")
            change(state)
            torch.save(state, folder / "checkpoint.pt")

        return apply

    for name, change in (*settings(folder, mark), *tables(folder, mark)):
        yield name, changed(change)
    yield from files(folder, mark)


def prepare(sound: Path, folder: Path, mark: Path) -> None:
    """Lay a sound model folder there again, with a folder of code beside its files."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(sound, folder)
    (folder / FOLDERS).mkdir()
    (folder / FOLDERS / "__init__.py").write_text(f"open({str(mark)!r}, 'w')\n", encoding="utf-8")
    mark.unlink(missing_ok=True)


def run_unguarded(sound: Path, folder: Path, mark: Path) -> list[str]:
    """Which of the settings run in fairseq as it is: its own building of models, with Python's own `eval`."""
    from fairseq import models

    from align.analysis.models.native import load_fairseq
    from align.models.folder import find_model
    from align.models.model_toml import ModelOptions

    dictionary = load_fairseq(find_model(str(sound), ModelOptions()), ["de", "en"]).encoder.dictionary
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    ran = []
    guarded = {module: vars(module)["eval"] for module in list(sys.modules.values()) if "eval" in vars(module)}
    for module in guarded:
        vars(module)["eval"] = builtins.eval
    try:
        for name, damage in settings(folder, mark):
            prepare(sound, folder, mark)
            state = load_checkpoint(folder / "checkpoint.pt")
            damage(state)
            args = state["args"] or state["cfg"]["model"]
            with suppress(Exception):
                models.build_model(Namespace(**args) if isinstance(args, dict) else args, task)
            if mark.exists():
                ran.append(name)
    finally:
        for module, evaluate in guarded.items():
            vars(module)["eval"] = evaluate
    return ran
