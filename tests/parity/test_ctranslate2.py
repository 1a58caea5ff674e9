"""CTranslate2 folders, made by its own converters, next to the models that they are made of and its translator."""

from __future__ import annotations

import argparse
import json
import shutil
import struct
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from align import Pair, Search, load
from align.core.errors import ModelError
from align.core.scores import collate
from align.models.ctranslate2.files import read_variables, with_attention_of
from align.models.folder import BUNDLED
from align.models.model_toml import ModelOptions
from align.training.compat import install
from tests import hugging, marian
from tests.conftest import SHARED, example_pairs, shared_pairs

ctranslate2: Any = pytest.importorskip("ctranslate2")

SUBWORDS = [BUNDLED / "de-en" / f"{language}.spm" for language in ("de", "en")]
OPTIONS = ModelOptions(
    source_lang="de",
    target_lang="en",
    case="lower",
    tokenizer="moses",
    subwords="sentencepiece",
    subword_files=SUBWORDS,
)


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Converts the bundled model, with a quantisation or without."""
    pytest.importorskip("fairseq")
    install()
    torch.serialization.add_safe_globals([argparse.Namespace])
    from ctranslate2.converters import FairseqConverter

    root, source = tmp_path_factory.mktemp("ct2"), BUNDLED / "de-en"

    def convert(quantisation: str) -> Path:
        folder = root / (quantisation or "float32")
        if not folder.exists():
            made = FairseqConverter(str(source / "checkpoint.pt"), str(source), source_lang="de", target_lang="en")
            made.convert(str(folder), quantization=quantisation or None)
        return folder

    return convert


@pytest.mark.parametrize(
    ("quantisation", "share"), [("", 0.0), ("float16", 0.001), ("bfloat16", 0.005), ("int16", 0.002), ("int8", 0.005)]
)
def test_links_are_those_of_the_source_model(bundled: Callable[[str], Path], quantisation: str, share: float) -> None:
    cells: dict[str, Any] = {"layer": 1, "head": "all", "output_layer": 2, "output_head": "all", "scorer": None}
    pairs = shared_pairs(100) if (SHARED / "valid.de").is_file() else example_pairs()
    expected = [{*alignment.links} for alignment in load("de-en", **cells)(pairs)]
    ours = [{*alignment.links} for alignment in load(bundled(quantisation), options=OPTIONS, **cells)(pairs)]
    different = sum(len(a ^ b) for a, b in zip(expected, ours, strict=True))
    assert different <= share * sum(map(len, expected))
    assert ours != [set[tuple[int, int]]()] * len(pairs)


def write_early(source: Path, folder: Path, version: int) -> None:
    """Write a folder as versions before 3.0 did: settings in the model, vocabularies of lines, and no config.json."""
    _, tensors = read_variables(source / "model.bin")
    values = {name: tensor.numpy() for name, tensor in tensors.items()}
    aliases = {"decoder/projection/weight": "decoder/embeddings/weight"}
    for name in ("num_heads", "pre_norm", "activation"):
        value = values.pop(f"encoder/{name}")
        del values[f"decoder/{name}"]
        values[name] = value.astype(np.int8)
    for name, switch in (("with_source_bos", 0), ("with_source_eos", 1), ("with_target_bos", 0)):
        values[name] = np.int8(switch)
    if version < 4:
        for side in ("encoder", "decoder"):
            del values[f"{side}/scale_embeddings"]
            values[f"{side}/embeddings/multiply_by_sqrt_depth"] = np.int8(1)
        values["encoder/embeddings/weight"] = values.pop("encoder/embeddings_0/weight")
    else:
        for name, piece in (("unk", "<unk>"), ("bos", "<s>"), ("eos", "</s>")):
            values[f"{name}_token"] = np.frombuffer(piece.encode(), dtype=np.int8)
        for name in ("with_relative_position", "layernorm_embedding", "user_decoder_start_tokens"):
            values[name] = np.int8(0)
    if version > 2:
        del values["decoder/projection/weight"]

    def text(content: str) -> bytes:
        return struct.pack("<H", len(content) + 1) + content.encode() + b"\0"

    data = (
        struct.pack("<I", version) + text("TransformerSpec") + struct.pack("<II", 3 if version < 4 else 4, len(values))
    )
    for name, value in sorted(values.items()):
        data += text(name) + struct.pack(f"<B{value.ndim}I", value.ndim, *value.shape)
        if version < 4:
            data += struct.pack("<BI", value.itemsize, value.size)
        else:
            kinds = ("float32", "int8", "int16", "int32", "float16")
            data += struct.pack("<BI", kinds.index(str(value.dtype)), value.nbytes)
        data += value.tobytes()
    if version > 2:
        data += struct.pack("<I", len(aliases)) + b"".join(text(alias) + text(name) for alias, name in aliases.items())
    folder.mkdir()
    (folder / "model.bin").write_bytes(data)
    for side in ("source", "target"):
        pieces = json.loads((source / f"{side}_vocabulary.json").read_text(encoding="utf-8"))
        (folder / f"{side}_vocabulary.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")


@pytest.mark.parametrize("version", [2, 5])
def test_folders_of_early_versions(bundled: Callable[[str], Path], version: int, tmp_path: Path) -> None:
    """They have four heads, sources that end in `</s>` and targets that begin with it, none of which is the default."""
    write_early(bundled(""), tmp_path / "early", version)
    expected, early = (load(folder, options=OPTIONS) for folder in (bundled(""), tmp_path / "early"))
    recorders: list[Any] = [aligner.forward.recorder for aligner in (expected, early)]
    assert recorders[0].start == recorders[1].start
    pairs = [(tuple(pair.source), tuple(pair.target)) for pair in example_pairs()]
    assert [a.links for a in early(pairs)] == [a.links for a in expected(pairs)]
    content = (tmp_path / "early" / "model.bin").read_bytes()
    at = content.index(b"num_heads\0") + len(b"num_heads\0") + 6
    (tmp_path / "early" / "model.bin").write_bytes(content[:at] + b"\7" + content[at + 1 :])
    with pytest.raises(ModelError, match="cannot be split among 7 heads"):
        load(tmp_path / "early", options=OPTIONS)


@pytest.mark.parametrize("beam", [1, 4])
def test_translations_are_those_of_its_translator(bundled: Callable[[str], Path], beam: int) -> None:
    folder = bundled("")
    aligner = load(folder, options=OPTIONS)
    recorder: Any = aligner.forward.recorder
    translator = ctranslate2.Translator(str(folder), device="cpu", intra_threads=1)
    pieces = json.loads((folder / "source_vocabulary.json").read_text(encoding="utf-8"))
    find = recorder.translator(Search(beam=beam), 1000).find
    words = recorder._output(recorder).pieces
    pairs = [pair for pair in example_pairs() if pair.source]
    same = 0
    for pair in pairs:
        ids = recorder.encode(Pair(pair.source, (), 1)).source
        (theirs,) = translator.translate_batch([[pieces[n] for n in ids[:-1]]], beam_size=beam, max_decoding_length=60)
        (found,) = find(torch.tensor([ids]), 60)
        same += theirs.hypotheses[0] == [words.get(n, "<unk>") for n in found]
    assert same == len(pairs)


@pytest.mark.parametrize("quantisation", ["", "int8"])
def test_attention_that_its_translator_returns(
    bundled: Callable[[str], Path], quantisation: str, tmp_path: Path
) -> None:
    """A copy that names another layer translates alike."""
    folder, copy = bundled(quantisation), tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / "model.bin").write_bytes(with_attention_of(folder / "model.bin", 2, 4))
    recorder: Any = load(folder, options=OPTIONS).forward.recorder
    pieces = json.loads((folder / "source_vocabulary.json").read_text(encoding="utf-8"))
    in_pieces = ModelOptions(source_lang="de", target_lang="en", subwords="none")
    readers = [
        load(folder, options=in_pieces, score="weight", position="output", layer=layer, head="all", scorer=None)
        for layer in (3, 2)  # as fairseq's converter writes it, and as the copy does
    ]
    translators = [ctranslate2.Translator(str(path), device="cpu", intra_threads=1) for path in (folder, copy)]
    for pair in [pair for pair in example_pairs() if pair.source][:8]:
        source = [pieces[n] for n in recorder.encode(Pair(pair.source, (), 1)).source[:-1]]
        # one by one: in a batch with a beam, version 4.8.5 mixes up the attention of first pieces
        results = [each.translate_batch([source], beam_size=2, return_attention=True)[0] for each in translators]
        assert results[0].hypotheses == results[1].hypotheses
        for result, reader in zip(results, readers, strict=True):
            ours = np.array(reader.word_scores(source, result.hypotheses[0]))[:, :-1]
            assert np.abs(ours - np.array(result.attention[0])).max() < (0.05 if quantisation else 1e-5)
    (copy / "model.bin").write_bytes(b"")
    with pytest.raises(ModelError, match="it does not say which layer CTranslate2 returns"):
        with_attention_of(copy / "model.bin", 2, 4)


def edit(source: Path, folder: Path, **settings: Any) -> Path:
    """Copy a folder with other settings."""
    shutil.copytree(source, folder)
    content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(content | settings), encoding="utf-8")
    return folder


def test_another_epsilon_is_another_model(bundled: Callable[[str], Path], tmp_path: Path) -> None:
    names = [load(bundled(""), options=OPTIONS).forward.recorder.name]
    for epsilon in (1e-5, 1e-6):  # the former is the default
        folder = edit(bundled(""), tmp_path / str(epsilon), layer_norm_epsilon=epsilon)
        names.append(load(folder, options=OPTIONS).forward.recorder.name)
    assert names[0] == names[1] != names[2]


def test_a_multilingual_model_reads_its_languages(bundled: Callable[[str], Path], tmp_path: Path) -> None:
    folder = edit(bundled(""), tmp_path / "many", add_source_eos=False)
    codes = [f"__{code}__" for code in ["de", "en", "fr", "es", "it", "nl", "pt", "pl", "cs", "sv"]]
    for side in ("source", "target"):
        path = folder / f"{side}_vocabulary.json"
        pieces = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps([*pieces[: -len(codes)], *codes]), encoding="utf-8")
    recorder: Any = load(folder, options=OPTIONS).forward.recorder
    pieces = recorder.encode(Pair(("das",), ("the",), 1))
    vocabulary = json.loads((folder / "source_vocabulary.json").read_text(encoding="utf-8"))
    assert [vocabulary[n] for n in (pieces.source[0], pieces.source[-1])] == ["__de__", "</s>"]
    assert (pieces.source_words[0], pieces.source_words[-1]) == (-1, -1)
    vocabulary = json.loads((folder / "target_vocabulary.json").read_text(encoding="utf-8"))
    assert [vocabulary[n] for n in recorder.start] == ["</s>", "__en__"]
    (folder / "target_vocabulary.json").write_text(json.dumps(["x" if p == "__en__" else p for p in vocabulary]))
    with pytest.raises(ModelError, match="its vocabulary has no __en__"):
        load(folder, options=OPTIONS)
    with pytest.raises(ModelError, match="a model of 10 languages, and none is given"):
        load(folder)
    (folder / "model.toml").write_text('source = "de"\ntarget = "en"\n', encoding="utf-8")
    back = load(folder, options=replace(OPTIONS, source_lang=None, target_lang=None, reverse_of=("de", "en")))
    assert back.forward.recorder.languages == ("en", "de")
    with pytest.raises(ModelError, match="a model of 10 languages, and xx is given"):
        load(folder, options=replace(OPTIONS, target_lang="xx"))


@pytest.mark.parametrize("codes", [["__de__", "__en__"], [">>deu<<", ">>eng<<"]])
def test_a_model_of_a_few_languages_reads_them(
    bundled: Callable[[str], Path], codes: list[str], tmp_path: Path
) -> None:
    """As WMT21's have eight, and those of OPUS-MT tags, which their subwords would cut."""
    folder = edit(bundled(""), tmp_path / "few")
    for side in ("source", "target"):
        path = folder / f"{side}_vocabulary.json"
        pieces = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps([*pieces[:-2], *codes]), encoding="utf-8")
    recorder: Any = load(folder, options=OPTIONS).forward.recorder
    known = json.loads((folder / "source_vocabulary.json").read_text(encoding="utf-8"))
    read = recorder.encode(Pair(("das",), ("the",), 1))
    assert known[read.source[0]] == (codes[0] if codes[0].startswith("_") else codes[1])
    if codes[0].startswith(">"):
        tagged = recorder.encode(Pair((codes[0], "das"), ("the",), 1))
        assert tagged.source[1:] == read.source[1:]
        assert (known[tagged.source[0]], tagged.source_words[0]) == (codes[0], -1)
    assert recorder.multilingual
    with pytest.raises(ModelError, match=r"a model of 2 (target )?languages, and xx is given"):
        load(folder, options=replace(OPTIONS, target_lang="xx"))


def test_a_package_of_argos(bundled: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its text has no end of sentence, as OpenNMT-py trains it: no source word is linked with `</s>`."""
    package = tmp_path / "translate-de_en"
    edit(bundled(""), package / "model", add_source_eos=False, decoder_start_token="<s>")
    (package / "metadata.json").write_text('{"from_code": "de", "to_code": "en"}', encoding="utf-8")
    with pytest.raises(ModelError, match="no subwords next to the model"):
        load(package)
    shutil.copy(SUBWORDS[0], package / "sentencepiece.model")
    aligner = load(package)
    recorder: Any = aligner.forward.recorder
    assert recorder.languages == ("de", "en")
    assert recorder.encode(Pair(("das",), ("the",), 1)).source_words == [0]
    pairs = [("das haus", "the house"), ("ein", "a")]
    assert [len(alignment.pair.target) for alignment in aligner(pairs)] == [2, 1]
    (package / "metadata.json").write_text('{"from_code": "../x"}', encoding="utf-8")
    with pytest.raises(ModelError, match=r"metadata.json: '../x' is not a language code"):
        load(package)
    (package / "metadata.json").write_text('{"from_code": "de", "to_code": "en"}', encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.make_archive(str(tmp_path / "de_en"), "zip", tmp_path, package.name)
    archive = (tmp_path / "de_en.zip").rename(tmp_path / "de_en.argosmodel")
    for _ in range(2):
        unpacked = load(archive)
        assert unpacked.forward.recorder.name == recorder.name
        assert [alignment.links for alignment in unpacked(pairs)] == [alignment.links for alignment in aligner(pairs)]
    (folder,) = (tmp_path / "cache" / "extract-align" / "argos").iterdir()
    assert sorted(path.name for path in folder.iterdir()) == ["metadata.json", "model", "sentencepiece.model"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["x/metadata.json", "x/model/other.bin"], "no model/model.bin in it"),
        (["../model/model.bin/x", "/model/model.bin.txt"], "no model/model.bin in it"),
        ([], "not a package that can be unpacked"),
    ],
)
def test_archives_that_are_refused(
    names: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "a.argosmodel"
    path.write_bytes(b"PK\3\4")
    if names:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in names:
                archive.writestr(name, b"\0" * 10**6)
    with pytest.raises(ModelError, match=message):
        load(path)
    assert not (tmp_path / "cache").exists() or not [*(tmp_path / "cache" / "extract-align" / "argos").iterdir()]


def test_other_models_are_refused_by_name(bundled: Callable[[str], Path], tmp_path: Path) -> None:
    folder = tmp_path / "x"
    shutil.copytree(bundled("int8"), folder)
    content = (folder / "model.bin").read_bytes()

    def refused(data: bytes, message: str) -> None:
        (folder / "model.bin").write_bytes(data)
        with pytest.raises(ModelError) as caught:
            load(folder, options=OPTIONS)
        assert message in str(caught.value)
        assert caught.value.file == str(folder / "model.bin")

    for kind in (b"WhisperSpec", b"TransformerDecoderModelSpec"):
        renamed = struct.pack("<IH", 6, len(kind) + 1) + kind + content[4 + 2 + 15 :]
        refused(renamed, f"a CTranslate2 model of kind {kind.decode()}, not a Transformer that translates")
    refused(struct.pack("<I", 7) + content[4:], "version 7, not one of 2, 3, 4, 5, 6")
    refused(content[:-100_000], "not a CTranslate2 model, or damaged")
    (folder / "model.bin").write_bytes(content)
    (folder / "target_vocabulary.json").unlink()
    with pytest.raises(ModelError, match="no vocabulary"):
        load(folder, options=OPTIONS)


@pytest.mark.parametrize("kind", ["mbart", "mbart-50"])
def test_models_of_mbart(kind: str, tmp_path: Path) -> None:
    """Its converter needs settings that published models have; the tokens are those of transformers' tokenizers."""
    pytest.importorskip("transformers")
    from ctranslate2.converters import TransformersConverter

    source, folder = tmp_path / "hf", tmp_path / "ct2"
    hugging.save_model(kind, source)
    path = source / "config.json"
    of_class = {"mbart": "MBartTokenizer", "mbart-50": "MBart50Tokenizer"}
    published = {"normalize_before": True, "normalize_embedding": True, "tokenizer_class": of_class[kind]}
    path.write_text(json.dumps(json.loads(path.read_text()) | published))
    TransformersConverter(str(source)).convert(str(folder))
    path = folder / "shared_vocabulary.json"
    named = {letter: f"{letter}x_XX" for letter in "bcfjkmq"}  # in place of letters that no word needs
    pieces = [named.get(piece, piece) for piece in json.loads(path.read_text())]
    pieces[-3:] = ["de_DE", "en_XX", "fr_XX"]
    path.write_text(json.dumps(pieces))
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"bos_token": "<s>"}))
    options = ModelOptions(source_lang="de", target_lang="en", subwords="none")
    recorder: Any = load(folder, options=options).forward.recorder
    translator = ctranslate2.Translator(str(folder), device="cpu", intra_threads=1)
    for line in ("das haus ist alt . | the house is old .", "alt ist haus | the old house is old house"):
        source_pieces, target = (tuple(f"\u2581{word}" for word in side.split()) for side in line.split("|"))
        read = [*source_pieces, "</s>", "de_DE"] if kind == "mbart" else ["de_DE", *source_pieces, "</s>"]
        (theirs,) = translator.translate_batch(
            [read], target_prefix=[["en_XX", *target]], max_decoding_length=12, beam_size=1, return_attention=True
        )
        ids = recorder.encode(Pair(source_pieces, target, 1))
        assert [pieces[n] for n in ids.source] == read
        *_, last = recorder.record(collate([ids], recorder.pad), [1, 2, 3])
        first = theirs.hypotheses[0].index(target[0])  # row of the piece before: of the language
        expected = np.array(theirs.attention[0])[first : first + len(target)]  # the first head of the last layer
        assert np.abs(last.weights[0, 0, : len(target)].numpy() - expected).max() < 1e-5


@pytest.mark.parametrize("shape", ["teacher", "untied", "pre-norm", "gelu"])
def test_models_of_marian(shape: str, tmp_path: Path) -> None:
    """The converter's positions are not Marian's, so its own runtime is what attention and translations must equal."""
    from ctranslate2.converters import MarianConverter

    options: dict[str, Any] = {**marian.POST, "tied": "all", "transformer-ffn-activation": "gelu"}
    items, settings = marian.make(marian.SHAPES.get(shape, options))
    content = {"transformer-ffn-activation": "relu", **yaml.safe_load(settings)}
    content |= {"transformer-decoder-autoreg": "self-attention", "transformer-no-projection": False}
    content |= {"transformer-postprocess-emb": "d", "transformer-guided-alignment-layer": "last"}
    content |= {name: int(content[name]) for name in ("enc-depth", "dec-depth", "transformer-heads")}
    marian.write_npz(tmp_path / "model.npz", items, yaml.safe_dump(content))
    marian.write_vocabulary(tmp_path / "vocab.yml")
    folder = tmp_path / "ct2"
    MarianConverter(str(tmp_path / "model.npz"), [str(tmp_path / "vocab.yml")] * 2).convert(str(folder))
    recorder: Any = load(folder, options=ModelOptions(subwords="none")).forward.recorder
    translator = ctranslate2.Translator(str(folder), device="cpu", intra_threads=1)
    find = recorder.translator(Search(beam=1), 1000).find
    words = recorder._output(recorder).pieces
    lengths = set()
    for source in ("das haus ist alt .", "ein hund", "das ist alt", "hund haus ein ."):
        pieces = tuple(f"\u2581{word}" for word in source.split())
        (theirs,) = translator.translate_batch([pieces], max_decoding_length=12, beam_size=1, return_attention=True)
        target = tuple(theirs.hypotheses[0])
        ids = recorder.encode(Pair(pieces, target, 1))
        (found,) = find(torch.tensor([ids.source]), 12)
        assert target == tuple(words.get(n, "<unk>") for n in found)
        *_, last = recorder.record(collate([ids], recorder.pad), [1, 2])
        expected = np.array(theirs.attention[0])[: len(target)]  # the first head of the last layer
        ours = last.weights[0, 0].numpy()[: len(target), : expected.shape[1]]
        assert np.abs(ours - expected).max() < 1e-5
        lengths.add(len(target))
    assert max(lengths) > 1
