"""Translations of Hugging Face models are those of transformers' own `generate`, a sentence at a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from align import Pair, load, translate
from align.core.stream import BATCH_TOKENS
from align.core.types import Search
from examples.to_hugging_face import convert
from tests import hugging
from tests.conftest import example_pairs
from tests.hugging import options

pytest.importorskip("transformers")
pytestmark = pytest.mark.usefixtures("one_thread")

SENTENCES = ["das haus ist alt .", "wir sehen das haus", "und", "unbekannt das und wir", "haus das sehen wir"]
SEARCHES = [
    Search(max_len_a=1, max_len_b=9),
    Search(beam=1, max_len_a=0, max_len_b=8),
    Search(beam=3, length_penalty=0.3, max_len_a=0.5, max_len_b=3),
]


def generated(kind: str, model: Any, source: list[int], search: Search) -> list[int]:
    """The ids of a translation's pieces, by `generate`.

    A forced first piece is given as a prompt: if forced, it would count in the length that scores are divided by.
    Padding has no share of the probability, and the last `</s>` has its own probability; if forced, it would have 1.
    """
    config = model.config
    start, end = [config.decoder_start_token_id], config.eos_token_id
    english = 4 + len(hugging.WORDS) + 27 + 1  # after the vocabulary, the second language
    if kind in hugging.MULTILINGUAL:
        start = [english] if kind == "mbart" else [*start, english]
    elif kind == "bart":
        start.append(config.bos_token_id)
    room = (1024 if kind in ("t5", "mt5") else 40) - len(start)
    most = min(int(search.max_len_a * len(source) + search.max_len_b), room)

    def limited(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if ids.shape[1] < len(start) + most:
            return scores
        return torch.full_like(scores, float("-inf")).index_copy(1, torch.tensor([end]), scores[:, [end]])

    last = model.model.decoder.output_projection if kind == "fsmt" else model.lm_head
    pad = torch.tensor(config.pad_token_id)
    hook = last.register_forward_hook(lambda layer, inputs, logits: logits.index_fill(-1, pad, -1e9))
    found: list[int] = model.generate(
        torch.tensor([source]), attention_mask=torch.ones(1, len(source), dtype=torch.long), do_sample=False,
        num_beams=search.beam, length_penalty=search.length_penalty, early_stopping=search.beam > 1,
        min_new_tokens=1, max_new_tokens=most + 1, decoder_input_ids=torch.tensor([start]),
        decoder_start_token_id=start[0], forced_bos_token_id=None, forced_eos_token_id=None, logits_processor=[limited],
        use_cache=kind not in ("t5", "mt5"),
    )[0].tolist()  # fmt: skip
    hook.remove()
    assert found[: len(start)] == start
    assert found[-1] == end
    return found[len(start) : -1]


@pytest.mark.parametrize("kind", hugging.VOCABULARIES)
def test_pieces_are_those_of_generate(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = hugging.save_model(kind, tmp_path)
    recorder: Any = load(tmp_path, options=options(kind)).forward.recorder
    sources = [list(recorder.encode(Pair(tuple(line.split()), (), 1)).source) for line in SENTENCES]
    for search in SEARCHES:
        expected = [tuple(generated(kind, model, source, search)) for source in sources]
        for tokens in (BATCH_TOKENS, 1):
            translator = recorder.translator(search, tokens)
            monkeypatch.setattr(translator, "words", tuple)
            assert translator(sources) == expected
        assert all(expected)


@pytest.mark.parametrize("setting", ["tie_word_embeddings", "scale_decoder_outputs"])
def test_a_later_t5_does_not_scale_what_its_decoder_puts_out(
    setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import T5ForConditionalGeneration

    hugging.save_model("t5", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["scale_decoder_outputs"]
    (tmp_path / "config.json").write_text(json.dumps({**config, setting: False}))
    model: Any = T5ForConditionalGeneration.from_pretrained(tmp_path)
    assert not model.config.scale_decoder_outputs
    recorder: Any = load(tmp_path).forward.recorder
    source = list(recorder.encode(Pair(("das", "haus"), (), 1)).source)
    for search in SEARCHES:
        translator = recorder.translator(search, BATCH_TOKENS)
        monkeypatch.setattr(translator, "words", tuple)
        assert translator([source]) == [tuple(generated("t5", model, source, search))]


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled German–English model in the other format."""
    folder = tmp_path_factory.mktemp("moved") / "de-en"
    convert("de-en", folder)
    return folder


def test_translations_of_the_same_weights_are_those_of_fairseq(moved: Path) -> None:
    lines = [" ".join(pair.source) for pair in example_pairs() if 0 < len(pair.source) < 12][:5]
    lines[2:2] = ["", "漢字 haus !"]
    for search in (Search(), Search(beam=2, length_penalty=0.3)):
        ours, theirs = (
            list(translate(load(model, device="cpu", scorer=None), lines, search)) for model in (moved, "de-en")
        )
        assert [(one.pair, one.links) for one in ours] == [(one.pair, one.links) for one in theirs]
        assert ours[2].pair.target == ()
