"""Folders that have a sentencepiece model and no tokenizer.json: ids are those that transformers gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from align import ModelOptions, Pair, load
from align.models.huggingface.languages import LANGUAGES
from tests import hugging

pytest.importorskip("transformers")

PAIR = Pair(("das", "haus", "ist", "xq", "</s>"), ("the", "house", "deu_Latn", "is", "de_DE"), 1)
T5_IDS = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
KINDS: dict[str, tuple[str, str, tuple[str, str], dict[str, Any]]] = {
    "m2m_100": ("NllbTokenizer", "sentencepiece.bpe.model", ("deu_Latn", "eng_Latn"), {"model_type": "bpe"}),
    "mbart": ("MBartTokenizer", "sentencepiece.bpe.model", ("de_DE", "en_XX"), {}),
    "mbart-50": ("MBart50Tokenizer", "sentencepiece.bpe.model", ("de_DE", "en_XX"), {}),
    "mt5": ("T5Tokenizer", "spiece.model", ("", ""), T5_IDS),
    "t5": ("T5Tokenizer", "spiece.model", ("", ""), T5_IDS),
}
"""For each kind its tokeniser, the file that this reads, languages, and how a sentencepiece model is trained for it."""


def save(kind: str, folder: Path) -> Any:
    """A folder of that kind; returns the recorder of its model."""
    tokenizer, name, (source, target), training = KINDS[kind]
    hugging.save_model(kind, folder, size=300)
    (folder / "tokenizer.json").unlink()
    hugging.train_pieces(folder / name, **training)
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": tokenizer}))
    if training is T5_IDS:
        config = json.loads((folder / "config.json").read_text())
        config |= {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
        (folder / "config.json").write_text(json.dumps(config))
    return load(folder, options=ModelOptions(source_lang=source or None, target_lang=target or None)).forward.recorder


def test_languages_are_those_of_transformers() -> None:
    """And so NLLB's 256,000 pieces make eng_Latn 256047, as its published models have it."""
    from transformers.models.mbart import tokenization_mbart
    from transformers.models.mbart50 import tokenization_mbart50
    from transformers.models.nllb import tokenization_nllb

    for release, module in (
        ("mbart", tokenization_mbart),
        ("mbart-50", tokenization_mbart50),
        ("nllb", tokenization_nllb),
    ):
        own: Any = module
        assert LANGUAGES[release].split() == list(own.FAIRSEQ_LANGUAGE_CODES)
    assert 256_000 + 1 + LANGUAGES["nllb"].split().index("eng_Latn") == 256_047


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_and_languages_are_those_of_transformers(kind: str, tmp_path: Path) -> None:

    import transformers

    recorder = save(kind, tmp_path)
    tokenizer, _, (source, target), _ = KINDS[kind]
    given: dict[str, Any] = {"src_lang": source, "tgt_lang": target} if source else {}
    own = getattr(transformers, tokenizer).from_pretrained(tmp_path, **given)
    for words in (("das", "haus", "ist", "alt"), ("wir", "sehen", "das", "."), ("gross",)):
        pieces = recorder.encode(Pair(words, words, 1))
        text = " ".join(words)
        assert [*pieces.target] == own(text, add_special_tokens=False)["input_ids"]
        assert [n for n, word in zip(pieces.source, pieces.source_words, strict=True) if word >= 0] == [*pieces.target]
    if kind.startswith("mbart"):  # of such a folder transformers 5 gives NLLB no languages
        assert recorder.start[-1] == own.convert_tokens_to_ids(target)
