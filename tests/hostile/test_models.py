"""Hostile model folders: each is answered by a line, whatever is in it."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from align.models.fairseq.checkpoint import load_checkpoint
from align.models.saved import NotWanted, plain_weights
from tests import toy
from tests.hostile import fuzz_models
from tests.hostile.code import repacked

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the limits of child processes are those of Linux")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    toy.save_model(tmp_path / "folder")
    return tmp_path / "folder"


def answer(folder: Path) -> str:
    """The error that loading a folder ends in."""
    import fairseq.models  # noqa: F401  (before the fork)

    outcome = fuzz_models.load_folder(folder, folder.parent)
    assert outcome.what == "refused", outcome
    (line,) = [line for line in outcome.said.splitlines() if "error: " in line]
    return line.partition("error: ")[2].removeprefix(str(folder))


def resave(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    state = load_checkpoint(folder / "checkpoint.pt")
    change(state)
    torch.save(state, folder / "checkpoint.pt")


class ArrayOfPointers:
    """As numpy pickles an array, but of objects that lie where the bytes say."""

    def __reduce__(self) -> Any:
        class Pointers:
            def __reduce__(self) -> Any:
                return numpy.dtype, ("O", False, True)

        return numpy.ndarray, ((1,), Pointers(), b"A" * 8)


SETTINGS: list[tuple[str, Any, str]] = [
    ("encoder_layers", 10**9, "its setting encoder_layers is 1,000,000,000, but no weight is longer than 48"),
    ("decoder_layers", 10**400, "its setting decoder_layers is a very large int, not a whole number from 1"),
    ("encoder_layers", [2], "its setting encoder_layers is of type list, not a whole number from 1"),
    ("encoder_embed_dim", 10**9, "its setting encoder_embed_dim is 1,000,000,000, but no weight is longer than 48"),
    ("encoder_ffn_embed_dim", -1, "its setting encoder_ffn_embed_dim is -1, not a whole number from 1"),
    ("decoder_attention_heads", 4.0, "its setting decoder_attention_heads is 4.0, not a whole number"),
    ("decoder_attention_heads", "4" * 10**6, "its setting decoder_attention_heads is '4444"),
    ("decoder_attention_heads", 3, "its decoder is 16 wide, which cannot be split among 3 heads"),
    ("cross_self_attention", True, "its decoder attends to source and target at once"),
    ("encoder_normalize_before", "yes", "its setting encoder_normalize_before is 'yes', not true or false"),
    ("activation_fn", "os.system", "its setting activation_fn is 'os.system', not one of relu"),
    ("adaptive_softmax_cutoff", ["a"], "its setting adaptive_softmax_cutoff is of type list, not a few whole"),
    ("adaptive_softmax_cutoff", "[x for x in ()]", "its setting adaptive_softmax_cutoff is '[x for x in ()]'"),
    ("adaptive_softmax_factor", float("nan"), "its setting adaptive_softmax_factor is nan"),
    ("_name", ["a"], "cannot run this model"),
    ("_name", "wav2vec_ctc", "cannot run this model (wav2vec_ctc): no Transformer for translation"),
    ("_name", ArrayOfPointers(), "cannot run this model"),
]


@pytest.mark.parametrize(
    ("name", "value", "message"), SETTINGS, ids=[f"{n}-{i}" for i, (n, _, _) in enumerate(SETTINGS)]
)
def test_settings_that_do_not_fit_the_weights_are_named(folder: Path, name: str, value: Any, message: str) -> None:
    def change(state: dict[str, Any]) -> None:
        setattr(state["cfg"]["model"], name, value)
        if name == "_name":
            state["cfg"]["model"].arch = value

    resave(folder, change)
    assert message in answer(folder)


def test_arrays_over_bytes_of_the_files_choice_are_never_made(folder: Path) -> None:
    def everywhere(state: dict[str, Any]) -> None:
        model = state["cfg"]["model"]
        for name in ("dropout", "tie_adaptive_weights", "user_setting"):
            setattr(model, name, ArrayOfPointers())
        state["extra_state"] = {"best": ArrayOfPointers(), "counts": numpy.ones(3)}

    resave(folder, everywhere)
    assert "its setting tie_adaptive_weights is of type Inert, not true or false" in answer(folder)


Change = Callable[[dict[str, Any]], Any]


def put(name: Any, value: Any) -> Change:
    return lambda state: state["model"].update({name: value})


def weight(change: Callable[[torch.Tensor], Any]) -> Change:
    name = "decoder.layers.0.fc1.weight"
    return lambda state: state["model"].update({name: change(state["model"][name])})


STATES: list[tuple[str, Change, str]] = [
    ("no settings", lambda state: state["cfg"].update(model=None), "cannot run this model (without a name)"),
    ("args that are none", lambda state: state.update(args=3, cfg=None), "not a fairseq checkpoint"),
    ("a list as a language", lambda state: state["cfg"].update(task={"source_lang": ["de"]}), "links"),
    ("a scalar table", put("encoder.embed_tokens.weight", torch.tensor(1.0)), "entries"),
    ("a tuple's name", put((1, 2), torch.ones(1)), "a weight without a proper name"),
    (
        "two lines as a name",
        put("encoder.\nextract-align: all is well", torch.ones(1)),
        "a weight without a proper name",
    ),
    ("layers of one number", lambda state: layers(state, 40), "it has no encoder.layers.2."),
    (
        "a part of another model",
        put("decoder.embed_length.weight", torch.zeros(256, 16)),
        "its settings do not account for",
    ),
    ("a complex weight", weight(lambda w: w.to(torch.complex64)), "is not a dense tensor of real numbers"),
    ("a sparse weight", weight(lambda w: w.to_sparse()), "is not a dense tensor of real numbers"),
    ("a weight of no numbers", weight(lambda w: w.to("meta")), "is not a dense tensor of real numbers"),
    (
        "a stretched weight",
        weight(lambda w: torch.zeros(1).expand(10**6, 10**6)),
        "declares more numbers than it stores",
    ),
    ("no weight", weight(lambda w: "a"), "is not a tensor"),
    ("rows without numbers", put("x", torch.zeros(2**62, 0)), "declares more numbers than it stores"),
    ("infinite", weight(lambda w: w / 0), "not finite"),
]


def layers(state: dict[str, Any], count: int) -> None:
    """A name for every layer, and a number each."""
    state["model"] |= {f"encoder.layers.{number}.fc1.bias": torch.zeros(1) for number in range(2, count)}
    state["cfg"]["model"] = Namespace(**{**vars(state["cfg"]["model"]), "encoder_layers": count})


@pytest.mark.parametrize(("change", "message"), [case[1:] for case in STATES], ids=[case[0] for case in STATES])
def test_states_that_are_none_are_refused(folder: Path, change: Change, message: str) -> None:
    resave(folder, change)
    if message == "links":  # the languages on the command line stand above those of the file
        assert fuzz_models.load_folder(folder, folder.parent).what == "links"
    else:
        assert message in answer(folder)


def test_records_of_more_than_the_file_are_refused(folder: Path) -> None:
    fuzz_models.deflated(folder / "checkpoint.pt", b"\0" * 10**8)
    assert "not a fairseq checkpoint: records of more than its" in answer(folder)


def test_weights_of_more_than_the_file_are_refused(folder: Path) -> None:
    plain = torch.zeros(1000)
    with pytest.raises(NotWanted, match="weights of more than its 3,999 bytes"):
        plain_weights({"x": plain, "y": plain[:10]}, 3999)
    assert plain_weights({"x": plain, "y": plain[:10]}, 4000).keys() == {"x", "y"}


def test_what_is_asked_to_run_is_named(folder: Path) -> None:
    checkpoint = folder / "checkpoint.pt"
    sound = checkpoint.read_bytes()
    for content, message in (
        (b"\x80\x02cnumpy\nload\n)R.", "refused, for it asks to run numpy.load while being read"),
        (b"\x80\x02cos\nsystem\n)R.", "refused, for it asks to run os.system while being read"),
        (b"\x80\x02conmt.opts\nOpts\n)R.", "an OpenNMT-py model; extract-align reads"),
    ):
        checkpoint.write_bytes(content)
        assert message in answer(folder)
        checkpoint.write_bytes(sound)
        repacked(checkpoint, content)
        assert message in answer(folder)
        checkpoint.write_bytes(sound)


def test_a_dictionary_of_another_model(folder: Path) -> None:
    (folder / "dict.de.txt").write_bytes(b"a 1\nb 1\n")
    assert "dict.de.txt: 6 entries with fairseq's 4 special ones, but the encoder of" in answer(folder)
    for content in (b"a 1\n" * 100, b"\xff" * 100, b"a" * 5000):
        (folder / "dict.de.txt").write_bytes(content)
        said = answer(folder)
        assert "dict.de.txt: not a fairseq dictionary" in said
        assert len(said) < 400


TOML = [
    ("a = " + "[" * 60_000, "nested too deeply"),
    ("a = " + "9" * 5000, "a number has too many digits"),
    ("[calibration.input]\nnorm = 5", "norm in [calibration.input] is 5, not a table"),
    ("calibration = 5", "[calibration] is 5, not a table"),
    ("text = 5", "[text] is 5, not a table"),
    ("[calibration]\ninput = 5", "[calibration.input] is 5, not a table"),
    ('source = ["de"]\ntarget = "en"', "of type list is not a language code such as 'de'"),
    ("[calibration.input]\nnorm = {layer = inf, head = 1}", "a layer or head is inf, not a whole number"),
    ("[calibration.input]\nnorm = {layer = 0x" + "f" * 9999 + ", head = 1}", "a layer or head is a very large int"),
    ("[text]\ncase = '" + "a" * 60_000 + "'", "[text] case is one of lower, keep; not 'aaaa"),
    ("[" + "a" * 60_000 + "]", "the file has aaaa"),
    ("[calibration.input]\nnorm = {layer = 0, head = 1}", "a layer or head is 0, not a whole number"),
    ("[calibration.input]\nnorm = {layer = 1, head = -1}", "a layer or head is -1, not a whole number"),
    (
        "[calibration.input]\nnorm = {layer = 3, head = 1}",
        "layer 3, head 1 is out of range: the model has 2 layers of 4 heads",
    ),
    ('[calibration.input]\nnorm = {layer = 1, head = "some"}', "a layer or head is 'some', not a whole number"),
]


@pytest.mark.parametrize(("text", "message"), TOML)
def test_model_toml_is_checked(folder: Path, text: str, message: str) -> None:
    languages = "" if text.startswith("source") else 'source = "de"\ntarget = "en"\n'
    (folder / "model.toml").write_text(languages + text, encoding="utf-8")
    said = answer(folder)
    assert "model.toml: " in said
    assert message in said


@pytest.mark.parametrize(
    ("config", "what"),
    [
        (b'{"model_type": "\x1b[31m\xe2\x80\xae' + b"a" * 10**6 + b'"}', "not JSON"),
        (b'{"model_type": "\\u001b[31m\\u202e' + b"a" * 10**5 + b'"}', r"its model_type is '\x1b[31m\u202eaaaaaa"),
        (b"[" * 10**6, "not JSON"),
        (b'{"model_type": ' + b"9" * 10**6 + b"}", "not JSON"),
        (b'{"model_type": {}}', "its model_type is of type dict, not a word"),
        (b"\xff\xfe[", "not JSON"),
    ],
)
def test_a_config_of_another_toolkit_is_read_with_care(folder: Path, config: bytes, what: str) -> None:
    (folder / "checkpoint.pt").rename(folder / "model.safetensors")
    (folder / "config.json").write_bytes(config)
    said = answer(folder)
    assert said.startswith(f"/config.json: {what}")
    assert len(said) < 400


def test_a_config_that_is_no_file_is_not_waited_for(folder: Path) -> None:
    (folder / "checkpoint.pt").rename(folder / "model.safetensors")
    os.mkfifo(folder / "config.json")
    assert answer(folder).startswith("/config.json: no such file")
    (folder / "config.json").unlink()
    (folder / "config.json").symlink_to("/dev/zero")
    assert answer(folder).startswith("/config.json: no such file")


@pytest.mark.parametrize(
    "head", [b"PK\3\4", b"PK\3\4" + b"\xff" * 26, b"\xff" * 8 + b"{", b"\n\x0e\n", b"\0" * 8 + b"{"]
)
def test_beginnings_of_files_that_are_cut_short(folder: Path, head: bytes) -> None:
    (folder / "checkpoint.pt").write_bytes(head)
    assert "it may be cut short or damaged" in answer(folder)


@pytest.mark.parametrize(
    "codes", ["#version: 9999.9\na b\n", "#version: " + "1." * 10**5 + "\na b\n", " a\nb c\n", "a b c\n"]
)
def test_codes_that_subword_nmt_fails_at_later_are_refused_first(folder: Path, codes: str) -> None:
    for language in ("de", "en"):
        (folder / f"codes.{language}").write_text(codes, encoding="utf-8")
    assert "codes.de: not a file of BPE codes" in answer(folder)
