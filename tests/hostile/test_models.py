"""Hostile model folders: each is answered by a line, soon, in bounded memory, whatever is in it."""

from __future__ import annotations

import os
import struct
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from align.models.fairseq.checkpoint import load_checkpoint
from tests import toy
from tests.hostile import fuzz_models

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory of child processes is measured as Linux does")


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


def laughs() -> list[Any]:
    """2 to the power of 40 of them, in a few lists of lists: the billion laughs of XML, as a pickle."""
    lists: list[Any] = ["ha"]
    for _ in range(40):
        lists = [lists, lists]
    return lists


class ArrayOfPointers:
    """As numpy pickles an array, but of objects that lie where the bytes say."""

    def __reduce__(self) -> Any:
        class Pointers:
            def __reduce__(self) -> Any:
                return numpy.dtype, ("O", False, True)

        return numpy.ndarray, ((1,), Pointers(), b"A" * 8)


SETTINGS: list[tuple[str, Any, str]] = [
    ("encoder_layers", 10**9, "its settings have 1,000,000,000 encoder layers, its weights 2"),
    ("decoder_layers", 2000, "its settings have 2,000 decoder layers, its weights 2"),
    ("encoder_layers", laughs(), "its setting encoder_layers is of type list, not a whole number from 1"),
    ("encoder_embed_dim", 10**9, "its setting encoder_embed_dim is 1,000,000,000, but no weight is longer than 48"),
    ("encoder_ffn_embed_dim", -1, "its setting encoder_ffn_embed_dim is -1, not a whole number from 1"),
    ("decoder_attention_heads", 4.0, "its setting decoder_attention_heads is 4.0, not a whole number"),
    ("decoder_attention_heads", "4" * 10**6, "its setting decoder_attention_heads is '4444"),
    ("decoder_attention_heads", 3, "its decoder is 16 wide, which cannot be split among 3 heads"),
    ("cross_self_attention", True, "its decoder attends to source and target at once"),
    ("max_source_positions", 10**9, "its setting max_source_positions is 1,000,000,000, more than the 4,194,304"),
    ("encoder_normalize_before", "yes", "its setting encoder_normalize_before is 'yes', not true or false"),
    ("activation_fn", "os.system", "its setting activation_fn is 'os.system', not one of relu"),
    ("adaptive_softmax_cutoff", ["a"], "its setting adaptive_softmax_cutoff is of type list, not a few whole"),
    ("adaptive_softmax_cutoff", "[x for x in ()]", "its setting adaptive_softmax_cutoff is '[x for x in ()]'"),
    ("adaptive_softmax_factor", float("nan"), "its setting adaptive_softmax_factor is nan"),
    ("quant_noise_pq", laughs(), "its setting quant_noise_pq is of type list"),
    ("_name", laughs(), "cannot run this model"),
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
    ("billion laughs as settings", lambda state: state["cfg"].update(model={"a": laughs()}), "cannot run this model"),
    ("billion laughs as a language", lambda state: state["cfg"].update(task={"source_lang": laughs()}), "links"),
    ("a scalar table", put("encoder.embed_tokens.weight", torch.tensor(1.0)), "entries"),
    ("a tuple's name", put((1, 2), torch.ones(1)), "a weight without a proper name"),
    (
        "two lines as a name",
        put("encoder.\nextract-align: all is well", torch.ones(1)),
        "a weight without a proper name",
    ),
    ("layers of one number", lambda state: layers(state, 500), "it has no encoder.layers.2."),
    (
        "a part of another model",
        put("decoder.embed_length.weight", torch.zeros(256, 16)),
        "its settings do not account for",
    ),
    ("too many layers", lambda state: layers(state, 3000), "it has 3,000 encoder layers, more than the 512"),
    ("a complex weight", weight(lambda w: w.to(torch.complex64)), "torch.ComplexFloatStorage"),
    ("a sparse weight", weight(lambda w: w.to_sparse()), "torch._utils._rebuild_sparse_tensor"),
    ("a weight of no numbers", weight(lambda w: w.to("meta")), "_rebuild_meta_tensor_no_storage"),
    ("a stretched weight", weight(lambda w: torch.zeros(1).expand(10**6, 10**6)), "than it stores"),
    ("no weight", weight(lambda w: "a"), "is not a tensor"),
    ("rows without numbers", put("x", torch.zeros(2**62, 0)), "a size without numbers"),
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


def test_bombs_are_refused_before_they_are_unpacked(folder: Path) -> None:
    checkpoint = folder / "checkpoint.pt"
    sound = checkpoint.read_bytes()
    big = b"\x80\x02](" + b"]q\x01" * 3_000_000 + b"e."
    checkpoint.write_bytes(big)
    assert "refused, for it holds an index of more than 4,194,304 bytes" in answer(folder)
    checkpoint.write_bytes(sound)
    fuzz_models.repacked(checkpoint, big)
    assert "refused, for it holds an index of more than 4,194,304 bytes" in answer(folder)
    checkpoint.write_bytes(sound)
    fuzz_models.deflated(checkpoint, b"\0" * 10**8)
    assert checkpoint.stat().st_size < 10**6
    assert "refused, for it holds compressed records" in answer(folder)


def test_directories_that_torch_would_find_elsewhere_are_refused(folder: Path) -> None:
    checkpoint = folder / "checkpoint.pt"
    sound = checkpoint.read_bytes()
    records, end = sound[:-98], sound[-22:]  # with a record of 56 bytes and one of 20 between, for files above 4 GB
    zip64, locator = sound[-98:-42], sound[-42:-22]
    size, offset = struct.unpack("<2Q", zip64[40:])
    assert (zip64[:4], locator[:4], offset + size) == (b"PK\6\6", b"PK\6\7", len(records))
    plain_end = end[:12] + struct.pack("<2LH", size, offset, 0)
    checkpoint.write_bytes(records + plain_end)  # as smaller files may end
    assert fuzz_models.load_folder(folder, folder.parent).what == "links"
    other = records[offset:]  # a second directory, of which Python would read the one and torch the other
    moved = zip64[:40] + struct.pack("<2Q", size, offset - 1)
    for content in (
        records + other + plain_end,
        records + plain_end[:16] + struct.pack("<LH", offset - 1, 0),
        records + plain_end + plain_end,
        records + moved + locator + end,
        records + other + zip64 + locator + end,
        records + zip64 + zip64 + locator + end,
    ):
        checkpoint.write_bytes(content)
        assert "refused, for it holds a directory that is not where it says" in answer(folder)
    for content in (records + plain_end[:-2] + b"\1\0x", sound[:-1], records, records + locator + plain_end):
        checkpoint.write_bytes(content)
        assert "it may be cut short or damaged" in answer(folder)


def test_what_torch_allows_and_no_checkpoint_needs_is_refused(folder: Path) -> None:
    checkpoint = folder / "checkpoint.pt"
    sound = checkpoint.read_bytes()
    many = b"\x80\x02](" + b"K\x01" * 1000 + b"eq\x00"
    for body, message in (
        (b"cbuiltins\nbytearray\nJ\x00\x5e\xd0\xb2\x85R", "it asks to run builtins.bytearray"),
        (b"ccollections\nCounter\n)R", "it asks to run collections.Counter"),
        (b"ctorch.storage\nUntypedStorage\nJ\xff\xff\xff\x7f\x85R", "it asks to run torch.storage.UntypedStorage"),
        (b"ctorch._utils\n_rebuild_sparse_tensor\n)R", "it asks to run torch._utils._rebuild_sparse_tensor"),
        (b"ctorch\nTensor\nJ\xff\xff\xff\x7f\x85R", "it asks to run torch.Tensor"),
        (b"c_codecs\nencode\nX\x01\0\0\0aX\x03\0\0\0Hex\x86R", "it asks to run _codecs.encode"),
        (b"c_codecs\nencode\nX\x01\0\0\0aX\x08\0\0\0punycode\x86R", "it asks to run _codecs.encode"),
    ):
        for content in (b"\x80\x02" + body + b".", many + body + b"."):
            checkpoint.write_bytes(content)
            assert message in answer(folder)
            checkpoint.write_bytes(sound)
            fuzz_models.repacked(checkpoint, content)
            assert message in answer(folder)
            checkpoint.write_bytes(sound)
    again = b"ccollections\nOrderedDict\nq\x01" + b"h\x01h\x00\x85R" * 101
    fuzz_models.repacked(checkpoint, many + again + b".")
    assert "refused, for it holds parts that it uses more than 50 times" in answer(folder)


def test_a_tar_archive_is_never_looked_into(folder: Path) -> None:
    header = bytearray(b"\x80\x02N." * 5 + b"\0" * 492)
    header[100:108], header[124:136], header[156:157] = b"0000644\0", b"%011o\0" % 400_000, b"x"
    header[148:156] = b"%06o\0 " % (sum(header) + 8 * 32 - sum(header[148:156]))
    (folder / "checkpoint.pt").write_bytes(bytes(header) + b"1" * 400_384)  # whose search for a word takes its square
    assert "it may be cut short or damaged" in answer(folder)


def test_layers_that_share_their_weights_count_once(folder: Path) -> None:
    def share(state: dict[str, Any]) -> None:
        weights, one = state["model"], torch.zeros(1_000_000)
        for number in range(400):
            for name in ("fc1.weight", "fc2.weight"):
                shape = (62_500, 16) if name == "fc1.weight" else (16, 62_500)
                weights[f"encoder.layers.{number}.{name}"] = one.view(shape)
            weights[f"encoder.layers.{number}.fc1.bias"] = one[:62_500]
        state["cfg"]["model"].encoder_layers = 400
        state["cfg"]["model"].encoder_ffn_embed_dim = 1_000_000

    resave(folder, share)
    assert "no weight is longer than" in answer(folder)

    def share_with_a_smaller_size(state: dict[str, Any]) -> None:
        share(state)
        state["cfg"]["model"].encoder_ffn_embed_dim = 62_500

    resave(folder, share_with_a_smaller_size)
    assert "its layers share weights, and would be far larger than its file" in answer(folder)


def test_a_dictionary_is_not_read_beyond_the_models_rows(folder: Path) -> None:
    (folder / "dict.de.txt").write_bytes(b"a 1\n" * 10**7)
    assert "dict.de.txt: more entries than the 14 that the encoder of" in answer(folder)
    (folder / "dict.de.txt").write_bytes(b"\xff" * 10**7)
    assert "dict.de.txt: more entries than" in answer(folder)
    (folder / "dict.de.txt").write_bytes(b"a" * 5000)
    said = answer(folder)
    assert "dict.de.txt: not a fairseq dictionary" in said
    assert len(said) < 400


TOML = [
    ("a = " + "[" * 60_000, "nested too deeply"),
    ("a" * 70_000, "more than 65,536 bytes"),
    (".".join("a" * 8_000) + " = 1", "has more than 1,000 points"),
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
