"""Alignments by decoder-only models, from a folder to links: spans, positions, both directions, translation."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from align import Aligner, Cell, IdPair, Pair, load, two_way
from align.core.choice import leading
from align.core.errors import ModelError, PairError
from align.core.types import Search
from align.models.causal.model import CausalRecorder, Text
from align.models.causal.template import read_template
from align.models.divide import in_units
from align.models.huggingface.tokenizer_json import JsonTokenizer
from align.models.link_scorer import read_scorer
from align.models.model_toml import ModelOptions
from align.models.settings import Config
from tests import causal
from tests.hugging import change

pytest.importorskip("transformers", reason="needs transformers, which writes the models")

SOURCE = ["das", "haus", "ist", "alt", "und", "gross"]
TARGET = ["the", "house", "is", "old", "and", "big"]
PATTERN = "German: {source}\\nEnglish: {target}"


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A folder with a random model, and the model."""
    folder = tmp_path_factory.mktemp("models") / "llama"
    return folder, causal.save(folder)


def open_model(
    folder: Path, template: str | None = None, languages: tuple[str, str] = ("de", "en"), **named: Any
) -> Aligner:
    return load(folder, options=ModelOptions(*languages, template=template), **named)


def recorder_of(aligner: Aligner) -> CausalRecorder:
    recorder = aligner.forward.recorder
    assert isinstance(recorder, CausalRecorder)
    return recorder


def test_characters_of_several_pieces_are_words_of_their_own(llama: tuple[Path, Any]) -> None:
    """Its tokenizer writes characters that are no pieces as bytes, as Tower's does with most Chinese ones."""
    [pair] = in_units(recorder_of(open_model(llama[0], PATTERN)), [Pair(("我昨天看到的房子",), ("家里的房子",), 1)])
    assert (len(pair.source), len(pair.target)) == (8, 5)


def test_a_prefix_is_refused(llama: tuple[Path, Any]) -> None:
    with pytest.raises(ModelError, match="only encoders and encoder-decoders of Hugging Face read a prefix"):
        load(llama[0], options=ModelOptions("de", "en", source_prefix="translate: "))


@pytest.mark.parametrize("template", ["chat", PATTERN])
@pytest.mark.parametrize("position", ["input", "output"])
def test_links_are_those_of_a_naive_argmax(llama: tuple[Path, Any], template: str, position: str) -> None:
    folder, model = llama
    settings: dict[str, Any] = {"score": "weight", "threshold": None, "layer": 2, "head": 3, "position": position}
    for null in ("eos", "mask"):
        aligner = open_model(folder, template, null=null, **settings)
        pieces = recorder_of(aligner).encode(Pair(tuple(SOURCE), tuple(TARGET), 1))
        with torch.inference_mode():
            weights = model(torch.tensor([pieces.source]), output_attentions=True).attentions[1][0, 2]
        before = len(pieces.source) - len(pieces.target)
        links = set()
        for j in range(len(TARGET)):
            scores = [0.0] * (len(SOURCE) + 1)  # the last one is NULL
            for n, word in enumerate(pieces.target_words):
                if word == j:
                    row = weights[before + n - (position == "output")]
                    for column, source_word in enumerate(pieces.source_words):
                        scores[source_word] += float(row[column])
            best = max(range(len(SOURCE) + (null == "eos")), key=scores.__getitem__)
            if best < len(SOURCE):
                links.add((best, j))
        assert aligner.align(SOURCE, TARGET).links == links


def test_positions_are_not_off_by_one(tmp_path: Path) -> None:
    """Every piece attends to the same piece, its copy, in a model whose weights are set by hand."""
    size = causal.save_tokenizer(tmp_path)
    ids = json.loads((tmp_path / "tokenizer.json").read_text())["model"]["vocab"]
    shape = {"hidden_size": 32, "num_attention_heads": 1, "num_key_value_heads": 1, "num_hidden_layers": 1}
    rotation = {"rope_type": "default", "rope_theta": 1e8}  # no rotation to speak of in the last pairs of numbers
    model = causal.make_model("llama", size, rope_parameters=rotation, **shape)
    words = SOURCE[:4]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        for n, word in enumerate(words):
            model.model.embed_tokens.weight[ids[f"\u2581{word}"], 10 + n] = 1
        layer = model.model.layers[0]
        layer.input_layernorm.weight.fill_(1)
        for name in "qkvo":
            getattr(layer.self_attn, f"{name}_proj").weight.copy_(2 * torch.eye(32))
    model.save_pretrained(tmp_path)
    for score in ("weight", "norm"):
        for position, expected in (("input", {(3, 0), (0, 1), (2, 2), (1, 3)}), ("output", {(3, 1), (0, 2), (2, 3)})):
            aligner = open_model(tmp_path, score=score, position=position, null="mask", threshold=None, layer=1, head=1)
            links = aligner.align(words, ["alt", "das", "ist", "haus"]).links
            assert {link for link in links if link[1] or position == "input"} == expected


def test_both_directions_of_one_model_share_its_weights(llama: tuple[Path, Any]) -> None:
    forward = open_model(llama[0], "alma")
    swapped = ModelOptions(template="alma", reverse_of=forward.forward.recorder.languages)
    reverse = load(llama[0], options=swapped)
    assert reverse.forward.recorder.languages == ("en", "de")
    assert recorder_of(reverse).transformer is recorder_of(forward).transformer
    assert recorder_of(reverse).prompts.template.parts[0] == "Translate this from English to German:\nEnglish: "
    both = two_way(forward, reverse)
    assert both.forward.scorer is read_scorer()
    assert load(llama[0], options=swapped, scorer=None).forward.scorer is None
    assert all(0 <= i < 6 and 0 <= j < 6 for i, j in both.align(SOURCE, TARGET))
    again = pickle.loads(pickle.dumps(both))
    assert again.align(SOURCE, TARGET).scores == both.align(SOURCE, TARGET).scores


def test_a_position_leads_if_it_is_clearly_more_consistent() -> None:
    assert leading({"input": 2.0, "output": 2.5}) == ["output"]
    assert leading({"input": 2.0, "output": 1.6}) == ["input"]
    assert leading({"input": 2.0, "output": 2.3}) == ["input", "output"]
    assert leading({"input": 2.3, "output": 2.0}) == ["input", "output"]


@pytest.mark.parametrize("leader", ["input", "output", None])
def test_a_position_that_leads_is_read_alone(
    llama: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch, leader: str | None
) -> None:
    pairs = [(SOURCE[n % 3 :], TARGET[n % 3 :]) for n in range(60)]
    monkeypatch.setattr("align.core.choice.leading", lambda best: [leader] if leader else list(best))
    aligner = open_model(llama[0], PATTERN)
    fixed = aligner.fixed(pairs)
    assert fixed.forward.choice
    cells = fixed.forward.choice.place.cells()
    assert list(cells) == ([leader] if leader else ["input", "output"])
    place: dict[str, Any] = {}
    if leader:
        (cell,) = cells.values()
        place = {"layer": cell.layer, "head": cell.head}
    asked = open_model(llama[0], PATTERN, position=leader or "both", **place)
    for read in (aligner, fixed, pickle.loads(pickle.dumps(fixed))):
        assert [links.scores for links in read(pairs)] == [links.scores for links in asked(pairs)]
    narrow = open_model(llama[0], PATTERN, layer=2, head=3).fixed(pairs).forward.choice
    assert narrow
    assert narrow.place.cells() == dict.fromkeys(cells, Cell(2, 3))


def test_a_stored_position_is_read_alone(llama: tuple[Path, Any]) -> None:
    aligner = open_model(llama[0], PATTERN)
    cases: list[tuple[dict[Any, Cell], dict[str, Cell]]] = [
        ({("norm", "output"): Cell(3, 2)}, {"output": Cell(3, 2)}),
        ({("norm", "input"): Cell(2, 2), ("norm", "output"): Cell(3, 1)}, {"input": Cell(2, 2), "output": Cell(3, 1)}),
        ({("weight", "output"): Cell(3, 2)}, {"input": Cell(1, "all"), "output": Cell(2, "all")}),
        ({}, {"input": Cell(1, "all"), "output": Cell(2, "all")}),
    ]
    for stored, expected in cases:
        direction = replace(aligner.forward, calibration=stored)
        choice = replace(aligner, forward=direction).fixed().forward.choice
        assert choice
        assert choice.place.cells() == expected


def test_only_an_open_position_is_chosen(llama: tuple[Path, Any]) -> None:
    assert open_model(llama[0], PATTERN).forward.settings.position == "auto"
    assert open_model(llama[0], PATTERN, position="both").forward.settings.position == "both"
    assert open_model(llama[0], PATTERN, output_layer=2).forward.settings.position == "both"
    assert load("de-en").forward.settings.position == "both"


def test_ids_with_their_words_give_the_links_of_the_text(llama: tuple[Path, Any]) -> None:
    aligner = open_model(llama[0], PATTERN, threshold=0.1)
    pieces = recorder_of(aligner).encode(Pair(tuple(SOURCE), tuple(TARGET), 1))
    end = len(pieces.source) - len(pieces.target)
    prompt, prompt_words = pieces.source[:end], [None if word < 0 else word for word in pieces.source_words[:end]]
    generated, words = [*pieces.target, 2], [*pieces.target_words, None]
    expected = aligner.align(SOURCE, TARGET).scores
    assert aligner.align_ids(prompt, generated, prompt_words, words).scores == expected
    whole = [None] * len(prompt) + words
    assert aligner.align_ids(prompt, [*prompt, *generated], prompt_words, whole).scores == expected
    thoughts = aligner.align_ids(prompt, [20, 21, *generated], prompt_words, [None, None, *words])
    assert len(thoughts.pair.target) == len(TARGET)
    with pytest.raises(PairError, match="the words of ids are missing"):
        aligner.align_ids(prompt, generated)
    with pytest.raises(PairError, match="the pair has id 5,000, the model has"):
        aligner.align_ids([*prompt, 5000], generated, [*prompt_words, None], words)
    assert next(aligner([IdPair.of(prompt, generated, prompt_words, words)])).scores == expected


@pytest.mark.parametrize("name", ["llama", "llama 3", "gemma2", "gemma3", "qwen3"])
def test_translations_are_those_of_greedy_search_in_transformers(tmp_path: Path, name: str) -> None:
    model = causal.save(tmp_path, name)
    recorder = recorder_of(open_model(tmp_path))
    sources = [recorder.encode(Pair(tuple(SOURCE[:n]), (), n)).source for n in (1, 2, 2, 6)]
    search = Search(max_len_a=0, max_len_b=12)
    translations = recorder.translator(search, 1000)(sources)
    for source, words in zip(sources, translations, strict=True):
        own = model.generate(
            torch.tensor([source]), attention_mask=torch.ones(1, len(source)), do_sample=False, max_new_tokens=12,
            min_new_tokens=1, eos_token_id=recorder.prompts.ends,
        )[0, len(source) :].tolist()  # fmt: skip
        text = recorder.prompts.tokenizer.tokenizer.decode(own, skip_special_tokens=True)
        assert words == tuple(" ".join(text.splitlines()).split())


HOSTILE: list[tuple[Callable[[Path], object], str]] = [
    (lambda folder: change(folder, "config.json", num_key_value_heads=4), "6 heads of width 4 with 4"),
    (
        lambda folder: change(folder, "config.json", rope_parameters={"rope_type": "yarn"}),
        "its positions are scaled by yarn",
    ),
    (
        lambda folder: change(folder, "config.json", hidden_act="exec"),
        "its hidden_act is 'exec', not one of relu",
    ),
    (lambda folder: (folder / "tokenizer.json").unlink(), "no tokenizer.json, which decoder-only"),
]


@pytest.mark.parametrize(("spoil", "message"), HOSTILE, ids=[message for _, message in HOSTILE])
def test_hostile_folders(tmp_path: Path, spoil: Callable[[Path], object], message: str) -> None:
    causal.save(tmp_path)
    spoil(tmp_path)
    with pytest.raises(ModelError) as caught:
        open_model(tmp_path, "chat")
    assert message in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_a_gemma_that_reads_images_is_read_as_its_language_model(tmp_path: Path) -> None:
    causal.save(tmp_path, "gemma3")
    settings: dict[str, Any] = {"score": "weight", "layer": 2, "head": 3, "position": "input"}
    expected = open_model(tmp_path, **settings).word_scores(SOURCE, TARGET)
    weights = load_file(tmp_path / "model.safetensors")
    renamed = {f"language_model.{name}": weight for name, weight in weights.items()}
    save_file({**renamed, "vision_tower.embeddings.weight": torch.ones(2, 2)}, tmp_path / "model.safetensors")
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "modeling_own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    own = {"auto_map": {"AutoModelForCausalLM": "modeling_own.Model"}, "model_type": "gemma3", "text_config": config}
    (tmp_path / "config.json").write_text(json.dumps(own))
    aligner = open_model(tmp_path, **settings)
    assert aligner.word_scores(SOURCE, TARGET) == expected
    assert recorder_of(aligner).translator(Search(max_len_b=2, max_len_a=0), 100)([[5, 6]])
    assert not (tmp_path / "ran").exists()  # no code of a folder runs


@pytest.fixture(scope="module", params=["bytes", "metaspace"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> JsonTokenizer:
    """One with pieces of bytes, of which several make a character, or with pieces that begin with a space."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    if request.param == "bytes":
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        tokenizer = Tokenizer(models.BPE({piece: n for n, piece in enumerate(alphabet)}, []))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        pieces = ["<unk>", *"\u2581abüß家.:=\n", "\u2581a", "ab", "aü"]
        merges = [("\u2581", "a"), ("a", "b"), ("a", "ü")]
        tokenizer = Tokenizer(models.BPE({piece: n for n, piece in enumerate(pieces)}, merges, unk_token="<unk>"))
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    tokenizer.save(str(path))
    return JsonTokenizer(path)


@given(
    st.lists(st.text("abüß家\u0301\U0001f600.", min_size=1, max_size=4), min_size=1, max_size=4),
    st.sampled_from(["{source} = {target}", "a{source}b{target}", "ü{source}\\nü{source}ü: {target}"]),
)
def test_every_character_belongs_to_its_word(tokenizer: JsonTokenizer, words: list[str], pattern: str) -> None:
    template = read_template(Path(), pattern, (None, None))
    text = Text(tokenizer, template, Config({}, ""))
    ids, source_words, target_words = text.encode(words, words[::-1])
    prompt, *spans = template.fill(" ".join(words), " ".join(words[::-1]))
    offsets = tokenizer.tokenizer.encode(prompt, add_special_tokens=False).offsets
    for numbers, (begin, end), side in zip((source_words, target_words), spans, (words, words[::-1]), strict=True):
        word_of = [n for n, word in enumerate(side) for _ in f" {word}"][1:]  # of each character
        overlap = [first < end and last > begin for first, last in offsets]
        expected = [
            word_of[max(first, begin) - begin] if inside else -1
            for inside, (first, _) in zip(overlap, offsets, strict=True)
        ]
        assert numbers == expected
        assert set(numbers) >= {0}
    assert len(ids) == len(offsets)
