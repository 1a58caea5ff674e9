"""Vocabularies of the size that published models have, made in seconds: sentencepiece models written piece by piece."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path
from typing import Any, Literal

SENTENCES = [
    "Das ist ein Satz .",
    "It's the cat's toy, isn't it?",
    "»Ja«, sagte sie, „das ist ‚billig‘“…",
    'He said: "Stop!" (twice).',
    "Am 3.10.2024 um 14:30 Uhr kostet es 1.234,56 € – oder 20%.",
    "See https://example.org/a_b?c=d&e=f#g or mail a.b@example.com .",
    "\ufb01ne \ufb02ow, Straße, nai\u0308ve café, coöperate",
    "½ cup, x² + y³ = z, 5 \u2103, \u2116 7, ™ and \u2460",
    "\uff26\uff55\uff4c\uff4c\uff57\uff49\uff44\uff54\uff48\u3000\uff11\uff12\uff13 ABC",
    "two  spaces   and\ta tab",
    "東京都に住んでいます。",
    "我喜欢吃苹果\uff0c你呢\uff1f",
    "مرحبا بالعالم، كيف حالك؟",
    "नमस्ते दुनिया , आप कैसे हैं ?",
    "Привет, мир! Как дела?",
    "Smile \U0001f600 \U0001f44d\U0001f3fd family \U0001f468\u200d\U0001f469\u200d\U0001f467 !",
    '<b class="x">bold</b> &amp; <br/> {0} %s $HOME',
    "well-known state-of-the-art e-mail\u2014dash",
    "Dr. Müller, z. B. bzw. usw. etc. U.S.A.",
    "zero\u200bwidth and no\u00a0break here",
]
"""Text that tokenisers disagree about: glued punctuation, quotes, numbers, ligatures, scripts, markup."""

SYLLABLES = [a + b for a, b in product("bdfghjklmnprstvz", "aeiou")]


def _beginnings(mark: str = "") -> Iterator[str]:
    """Yield beginnings of the sentences' words, and of made-up words without end."""
    for sentence in SENTENCES:
        for word in sentence.split():
            for end in range(1, len(word)):
                yield f"{mark}{word[:end]}"
    for length in range(1, 9):
        for syllables in product(SYLLABLES, repeat=length):
            word = "".join(syllables)
            yield from (f"{mark}{word[:-1]}", f"{mark}{word}")


def write_sentencepiece(
    path: Path, size: int, kind: Literal["bpe", "unigram"], first: int = 0, **training: Any
) -> None:
    """Write a sentencepiece model with exactly so many pieces, and the normaliser that published models have."""
    from sentencepiece import SentencePieceTrainer
    from sentencepiece.sentencepiece_model_pb2 import ModelProto

    trained = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter([f"{sentence} {letter}" for sentence in SENTENCES for letter in "abc"]),
        model_writer=trained, vocab_size=420, model_type=kind, hard_vocab_limit=False,
        character_coverage=1.0, minloglevel=2, **training
    )  # fmt: skip
    proto: Any = ModelProto.FromString(trained.getvalue())
    normal = proto.pieces[0].NORMAL
    special = [piece for piece in proto.pieces if piece.type != normal]
    letters = {letter for piece in proto.pieces if piece.type == normal for letter in piece.piece}
    characters = sorted({"\u2581", *letters, *"abcdefghijklmnopqrstuvwxyz"})
    words = dict.fromkeys(piece for piece in islice(_beginnings("\u2581"), first, 4 * size) if len(piece) > 1)
    chosen = [*islice(words, size - len(special) - len(characters)), *characters]
    del proto.pieces[:]
    proto.pieces.extend(special)
    for rank, piece in enumerate(chosen):
        score = -float(rank) if kind == "bpe" else -1.0 - 20 * rank / size
        proto.pieces.add(piece=piece, score=score, type=normal)
    proto.trainer_spec.vocab_size = len(proto.pieces)
    assert len(proto.pieces) == size
    path.write_bytes(proto.SerializeToString())


def bpe_merges(size: int) -> tuple[list[str], list[str]]:
    """Make pieces of fastBPE, `</w>` at a word's end, and the merges that lead to them: `(pieces, merges)`."""
    letters = sorted({*"".join(SENTENCES), *"abcdefghijklmnopqrstuvwxyz&;@"} - {" "})
    pieces = dict.fromkeys(letter + end for letter in letters for end in ("", "</w>"))
    merges = []
    for word in _beginnings():
        if len(pieces) == size:
            break
        if len(word) > 1 and word not in pieces and word[:-1] in pieces and word[-1] in pieces:
            pieces[word] = None
            merges.append(f"{word[:-1]} {word[-1]}")
    return list(pieces), merges


def byte_level_tokenizer(size: int) -> Any:
    """Make a tokenizer of bytes as GPT-2 and BART have it, with `<s>` and `</s>` around a text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pieces = dict.fromkeys([*specials, *sorted(pre_tokenizers.ByteLevel.alphabet())])
    merges = []
    for word in _beginnings(" "):
        if len(pieces) == size - 1:
            break
        (spelled,) = [text for text, _ in level.pre_tokenize_str(word)][:1]
        if len(spelled) > 1 and spelled not in pieces and spelled[:-1] in pieces:
            pieces[spelled] = None
            merges.append((spelled[:-1], spelled[-1]))
    pieces["<mask>"] = None
    tokenizer: Any = Tokenizer(models.BPE({piece: n for n, piece in enumerate(pieces)}, merges))
    tokenizer.pre_tokenizer, tokenizer.decoder = level, decoders.ByteLevel()
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    tokenizer.add_special_tokens([*specials, "<mask>"])
    return tokenizer
