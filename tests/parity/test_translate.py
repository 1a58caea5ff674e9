"""Translations are those of fairseq's own generator, a sentence at a time; links are those of the same text read."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from align import Aligner, Direction, Pair, load, translate
from align.analysis.models.native import load_fairseq
from align.core.stream import BATCH_TOKENS
from align.core.types import Search
from align.models.defaults import DEFAULT_MODEL
from align.models.detokenize import UNKNOWN
from align.models.folder import find_model
from align.models.model_toml import ModelOptions
from tests import toy
from tests.conftest import example_pairs, plain

pytestmark = pytest.mark.usefixtures("one_thread")

FIXED = plain(layer=1, head=3)
SEARCHES = [Search(), Search(beam=1), Search(beam=2, length_penalty=0.3, max_len_a=0.5, max_len_b=3)]


def sentences() -> list[tuple[str, ...]]:
    """The shortest of the examples, two of one length among them, one of them unknown to the model."""
    found = sorted({pair.source for pair in example_pairs() if pair.source}, key=len)[:4]
    return [*found, ("漢字", "haus", "!"), found[0][::-1]]


def fairseq_translations(recorder: Any, search: Search) -> list[tuple[str, ...]]:
    """By the task's own `build_generator`, a sentence at a time, joined as fairseq's programs join it."""
    from fairseq.data.encoders.moses_tokenizer import MosesTokenizer, MosesTokenizerConfig
    from fairseq.dataclass.configs import GenerationConfig
    from fairseq.tasks.translation import TranslationConfig, TranslationTask

    model = load_fairseq(find_model(DEFAULT_MODEL, ModelOptions()), recorder.languages)
    dictionaries = model.encoder.dictionary, model.decoder.dictionary
    task = TranslationTask(TranslationConfig(source_lang="de", target_lang="en"), *dictionaries)
    options = GenerationConfig(
        beam=search.beam, lenpen=search.length_penalty, max_len_a=search.max_len_a, max_len_b=search.max_len_b
    )
    generator = task.build_generator([model], options)
    moses = MosesTokenizer(MosesTokenizerConfig(source_lang="de", target_lang="en", moses_no_escape=True))
    found = []
    for words in sentences():
        tokens = torch.tensor([recorder.encode(Pair(words, (), 1)).source])
        sample = {"net_input": {"src_tokens": tokens, "src_lengths": torch.tensor([tokens.shape[1]])}}
        best = task.inference_step(generator, [model], sample)[0][0]["tokens"]
        found.append(tuple(moses.decode(dictionaries[1].string(best, "sentencepiece")).split(" ")))
    return found


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_fairseqs_own_translations(recorder: Any, search: Search) -> None:
    translator = recorder.translator(search, BATCH_TOKENS)
    pieces = [recorder.encode(Pair(words, (), 1)).source for words in sentences()]
    together = translator(pieces)
    expected = fairseq_translations(recorder, search)
    assert [tuple(word.replace(UNKNOWN, "<unk>") for word in words) for words in together] == expected
    assert any("<unk>" in words for words in expected)
    assert recorder.translator(search, 1)(pieces) == together


def test_links_are_those_of_the_same_text_from_a_file(recorder: Any) -> None:
    lines = [" ".join(words) for words in sentences()]
    lines[2] = ""
    found = list(translate(Aligner(Direction(recorder, FIXED)), lines, Search(allow_unk=True)))
    read = [(line, " ".join(alignment.pair.target)) for line, alignment in zip(lines, found, strict=True)]
    again = load("de-en", device="cpu", position="input", layer=1, head=3, threshold=None)(read)
    for alignment, expected in zip(found, again, strict=True):
        assert alignment.pair == expected.pair
        assert alignment.scores == pytest.approx(expected.scores, abs=1e-5)
    assert [alignment.pair.id for alignment in found] == [1, 2, 3, 4, 5, 6]
    assert found[2].pair.target == ()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A toy that translates word by word, with room for 40 pieces."""
    return load(str(toy.save_trained_model(tmp_path_factory.mktemp("trained"))), device="cpu").forward.recorder


def aligner_of(recorder: Any, **options: Any) -> Aligner:
    return Aligner(Direction(recorder, plain(layer=1, head="all")), **options)


def test_order_and_number_are_kept_in_any_buffers(trained: Any) -> None:
    numbers = random.Random(1)
    lines = [" ".join(numbers.choices(toy.SOURCE_WORDS, k=numbers.randrange(7))) for _ in range(30)]
    found = [list(translate(aligner_of(trained, buffer=buffer), lines)) for buffer in (1, 7, 2000)]
    assert [" ".join(alignment.pair.source) for alignment in found[0]] == lines
    written = [[alignment.pair.target for alignment in some] for some in found]
    assert written[1:] == [written[0]] * 2
    assert len(set(written[0])) > 15
