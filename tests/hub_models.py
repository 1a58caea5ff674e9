"""Folders like those of models on the Hugging Face hub: published settings, ids and vocabulary sizes, narrow weights.

    python -m tests.hub_models NAME FOLDER [PIECES]

writes one and what the tokenizer of the installed transformers makes of the sentences; any version of transformers can
run it, for nothing of this package is imported. Weights are random, and vocabularies are made up: of the published
models only the shape is known here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from align.core.text import normalize, split_words
from align.models.preprocess import sentencepiece_pieces
from tests.hugging import MARIAN, USUAL_IDS, write_json, write_weights
from tests.vocabularies import SENTENCES, bpe_merges, byte_level_tokenizer, write_sentencepiece

Ids = dict[str, list[list[int]]]
"""Of each sentence as a "source", special pieces included, and as a "target" without them."""

Cut = Callable[[str], list[int]]
"""Cuts a sentence into ids."""

T5_IDS = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
T5_TRAINING = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}


@dataclass(frozen=True)
class HubModel:
    """A published model."""

    name: str
    kind: str
    pieces: int  # of its sentencepiece model, or of each of its two
    rows: int  # of its table of pieces
    parameters: int  # millions
    # writes its tokenizer files; returns what cuts a source and a target by transformers
    text: Callable[[Path, HubModel], tuple[Cut, Cut]]
    settings: dict[str, Any] = field(default_factory=dict)
    source: str | None = None
    target: str | None = None
    prefix: str | None = None  # of each source

    def with_pieces(self, pieces: int) -> HubModel:
        """The same with a smaller vocabulary."""
        rows = 2 * pieces if self.kind == "marian" else pieces + self.rows - self.pieces
        return replace(self, pieces=pieces, rows=rows)


def _cut(tokenizer: Any, before: str = "", last: Any = None) -> tuple[Cut, Cut]:
    """Return what cuts a source with its special pieces, after some text, and a target without them."""
    last = last or tokenizer
    return (
        lambda text: list(tokenizer(before + text)["input_ids"]),
        lambda text: list(last(text, add_special_tokens=False)["input_ids"]),
    )


def _marian(folder: Path, model: HubModel) -> tuple[Cut, Cut]:
    from transformers import MarianTokenizer

    tags = [">>fra<<", ">>por<<", ">>pob<<"] if model.target else []
    for name, seed in (("source", 1), ("target", 2)):
        write_sentencepiece(folder / f"{name}.spm", model.pieces, "unigram", first=seed)
    ids = {"</s>": 0, "<unk>": 1}
    pieces = [piece for side in ("source", "target") for piece in sentencepiece_pieces(folder / f"{side}.spm")[3:]]
    for piece in (*tags, *pieces):
        if len(ids) < model.rows - 1:
            ids.setdefault(piece, len(ids))
    write_json(folder / "vocab.json", {**ids, "<pad>": model.rows - 1})
    languages = {"source_lang": "en", "target_lang": "pt"} if tags else {"source_lang": "de", "target_lang": "en"}
    write_json(folder / "tokenizer_config.json", languages)
    own: Any = MarianTokenizer.from_pretrained(folder)
    source, _ = _cut(own, f">>{model.target}<<" if tags else "")
    return source, lambda text: list(own(text_target=text)["input_ids"])[:-1]


def _m2m100(folder: Path, model: HubModel) -> tuple[Cut, Cut]:
    from transformers import M2M100Tokenizer

    path = folder / "sentencepiece.bpe.model"
    write_sentencepiece(path, model.pieces, "bpe")
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *sentencepiece_pieces(path)[3:]]
    pieces += [f"<unused{n}>" for n in range(model.pieces + 4 - len(pieces))]
    write_json(folder / "vocab.json", {piece: n for n, piece in enumerate(pieces)})
    small = "small100" in model.name
    first = model.target if small else model.source  # of SMaLL-100's tokenizer, which is no part of transformers
    own: Any = M2M100Tokenizer(str(folder / "vocab.json"), str(path), src_lang=first, tgt_lang=model.target)
    own.save_pretrained(folder)
    if small:
        settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        settings |= {"tokenizer_class": "SMALL100Tokenizer", "src_lang": None, "tgt_lang": None}
        write_json(folder / "tokenizer_config.json", settings)
    return _cut(own)


def _nllb(folder: Path, model: HubModel) -> tuple[Cut, Cut]:
    """As transformers 4 saved it with its slow tokenizer, or as any version does with a tokenizer.json."""
    import transformers
    from transformers import NllbTokenizer

    path = folder / "sentencepiece.bpe.model"
    write_sentencepiece(path, model.pieces, "bpe")
    given: dict[str, Any] = {"src_lang": model.source, "tgt_lang": model.target}
    if transformers.__version__.startswith("4."):
        own: Any = NllbTokenizer(str(path), **given)
    else:
        from align.models.huggingface.languages import LANGUAGES  # which this version does not take from the file

        own = NllbTokenizer.from_pretrained(folder, extra_special_tokens=LANGUAGES["nllb"].split(), **given)
    own.save_pretrained(folder)
    return _cut(own)


def _saved(name: str, file: str, **training: Any) -> Callable[[Path, HubModel], tuple[Cut, Cut]]:
    """Return what writes the files of a tokenizer of transformers, with a sentencepiece model if it has one."""

    def write(folder: Path, model: HubModel) -> tuple[Cut, Cut]:
        import transformers

        if file:
            write_sentencepiece(folder / file, model.pieces, "unigram", **training)
        languages = {"src_lang": model.source, "tgt_lang": model.target} if model.source else {}
        own: Any = getattr(transformers, name).from_pretrained(folder, **languages)
        own.save_pretrained(folder)
        return _cut(own)

    return write


def _mbart(folder: Path, model: HubModel) -> tuple[Cut, Cut]:
    """As transformers 4 saved it: version 5 loses the normaliser of such a file, so sentencepiece itself cuts."""
    from sentencepiece import SentencePieceProcessor
    from transformers import MBartTokenizer

    path = folder / "sentencepiece.bpe.model"
    write_sentencepiece(path, model.pieces, "unigram")
    given: dict[str, Any] = {"src_lang": model.source, "tgt_lang": model.target}
    language = MBartTokenizer.from_pretrained(folder, **given).convert_tokens_to_ids(str(model.source))
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "MBartTokenizer", **given})
    processor: Any = SentencePieceProcessor(model_file=str(path))

    def inner(text: str) -> list[int]:
        return [n + 1 if n else 3 for n in processor.encode(text)]  # fairseq shifts ids by one

    return lambda text: [*inner(text), 2, language], inner


def _t5(folder: Path, model: HubModel) -> tuple[Cut, Cut]:
    from transformers import T5Tokenizer

    path = folder / "spiece.model"
    first = ["<2de>", "<2en>", "<2fr>"] if "madlad" in model.name else []
    write_sentencepiece(path, model.pieces, "unigram", user_defined_symbols=first, **T5_TRAINING)
    own: Any = T5Tokenizer.from_pretrained(folder, extra_ids=0 if model.kind != "t5" or first else 100)
    if first:
        own.add_special_tokens({"additional_special_tokens": first})
    own.save_pretrained(folder)
    if not path.is_file():
        write_sentencepiece(path, model.pieces, "unigram", user_defined_symbols=first, **T5_TRAINING)
    return _cut(own, f"<2{model.target}> " if first else model.prefix or "")


def _fsmt(folder: Path, model: HubModel) -> tuple[Cut, Cut]:
    from transformers import FSMTTokenizer

    pieces, merges = bpe_merges(model.rows - 4)
    ids = {piece: n for n, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>", *pieces])}
    files = {f"{side}_vocab_file": str(folder / f"vocab-{side}.json") for side in ("src", "tgt")}
    for path in files.values():
        write_json(Path(path), ids)
    (folder / "merges.txt").write_text("".join(f"{merge}\n" for merge in merges), encoding="utf-8")
    languages = ["de", "en"]
    write_json(folder / "tokenizer_config.json", {"langs": languages, "do_lower_case": False})
    # its tokenizer cuts both sides by the rules of the first language
    own: list[Any] = [
        FSMTTokenizer(langs=langs, merges_file=str(folder / "merges.txt"), **files)
        for langs in (languages, languages[::-1])
    ]
    return _cut(own[0], last=own[1])


def _bart(folder: Path, model: HubModel) -> tuple[Cut, Cut]:
    from transformers import PreTrainedTokenizerFast

    byte_level_tokenizer(model.rows).save(str(folder / "tokenizer.json"))
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "BartTokenizer"})
    own: Any = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    return _cut(own)


MBART50 = _saved("MBart50Tokenizer", "sentencepiece.bpe.model")
PEGASUS = _saved("PegasusTokenizer", "spiece.model", **T5_TRAINING)
BYT5 = _saved("ByT5Tokenizer", "")
TASKS = {
    f"translation_en_to_{code}": {"prefix": f"translate English to {language}: "}
    for code, language in (("de", "German"), ("fr", "French"), ("ro", "Romanian"))
}
GATED = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
SCALED = {**USUAL_IDS, "scale_embedding": True, "activation_function": "relu"}

MODELS = [
    HubModel("Helsinki-NLP/opus-mt-de-en", "marian", 32_000, 58_101, 74, _marian, MARIAN),
    HubModel("Helsinki-NLP/opus-mt-tc-big-en-pt", "marian", 32_000, 54_776, 234, _marian, MARIAN, target="por"),
    HubModel("facebook/m2m100_418M", "m2m_100", 128_000, 128_112, 484, _m2m100, SCALED, "de", "en"),
    HubModel("alirezamsh/small100", "m2m_100", 128_000, 128_112, 333, _m2m100, SCALED, target="en"),
    HubModel(
        "facebook/nllb-200-distilled-600M", "m2m_100", 256_000, 256_206, 615, _nllb, SCALED, "deu_Latn", "eng_Latn"
    ),
    HubModel(
        "facebook/mbart-large-50-many-to-many-mmt", "mbart", 250_000, 250_054, 611, MBART50, SCALED, "de_DE", "en_XX"
    ),
    HubModel(
        "facebook/mbart-large-en-ro", "mbart", 250_000, 250_027, 611, _mbart,
        {**USUAL_IDS, "scale_embedding": True, "activation_function": "gelu"}, "en_XX", "ro_RO",
    ),
    HubModel("facebook/wmt19-de-en", "fsmt", 42_024, 42_024, 271, _fsmt, {**USUAL_IDS, "scale_embedding": True}),
    HubModel("facebook/bart-large", "bart", 50_265, 50_265, 406, _bart, {**USUAL_IDS, "activation_function": "gelu"}),
    HubModel(
        "google-t5/t5-small", "t5", 32_000, 32_128, 61, _t5, {**T5_IDS, "task_specific_params": TASKS}, "en", "de",
        prefix="translate English to German: ",
    ),
    HubModel("google/mt5-small", "mt5", 250_000, 250_112, 300, _t5, {**T5_IDS, **GATED}),
    HubModel("google/umt5-small", "umt5", 256_000, 256_384, 309, _t5, {**T5_IDS, **GATED}),
    HubModel("google/byt5-small", "t5", 384, 384, 300, BYT5, {**T5_IDS, **GATED}),
    HubModel("google/madlad400-3b-mt", "t5", 256_000, 256_000, 2_940, _t5, {**T5_IDS, **GATED}, target="de"),
    HubModel(
        "google/pegasus-xsum", "pegasus", 96_000, 96_103, 569, PEGASUS,
        {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "scale_embedding": True,
         "activation_function": "relu"},
    ),
]  # fmt: skip
"""Models of each family that is read."""


def write_model(model: HubModel, folder: Path) -> tuple[Any, Ids]:
    """Write a folder with random weights; returns transformers' module, and the ids of the sentences."""
    folder.mkdir(parents=True, exist_ok=True)
    source, target = model.text(folder, model)
    module = write_weights(model.kind, folder, model.rows, 512, model.settings)
    texts = [normalize(" ".join(split_words(sentence))) for sentence in SENTENCES]  # as a recorder reads them
    return module, {"source": list(map(source, texts)), "target": list(map(target, texts))}


def find_model(name: str) -> HubModel:
    """The model of that name."""
    return next(model for model in MODELS if model.name == name)


if __name__ == "__main__":
    chosen = find_model(sys.argv[1])
    _, found = write_model(chosen.with_pieces(int(sys.argv[3])) if sys.argv[3:] else chosen, Path(sys.argv[2]))
    write_json(Path(sys.argv[2]) / "ids.json", found)
