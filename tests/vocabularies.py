"""Vocabularies of the size that published models have, made in seconds: sentencepiece models written piece by piece."""

from __future__ import annotations

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


def _pieces() -> Iterator[str]:
    """Yield beginnings of the sentences' words, and of made-up words without end."""
    for sentence in SENTENCES:
        for word in sentence.split():
            for end in range(2, len(word)):
                yield f"\u2581{word}"[:end]
    for length in range(1, 9):
        for syllables in product(SYLLABLES, repeat=length):
            yield from (f"\u2581{''.join(syllables)}"[: 2 * length + offset] for offset in (0, 1))


def write_sentencepiece(path: Path, size: int, kind: Literal["bpe", "unigram"], **options: Any) -> None:
    """Write a sentencepiece model with exactly so many pieces, and the normaliser that published models have.

    Args:
        path: where to.
        size: of the vocabulary, special pieces included.
        kind: the algorithm.
        options: for sentencepiece's trainer, such as the ids of special pieces.
    """
    import io

    from sentencepiece import SentencePieceTrainer
    from sentencepiece.sentencepiece_model_pb2 import ModelProto

    trained = io.BytesIO()
    lines = [f"{sentence} {a}" for sentence in SENTENCES for a in "abc"]
    SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=trained, vocab_size=400, model_type=kind, character_coverage=1.0,
        hard_vocab_limit=False, minloglevel=2, **options
    )  # fmt: skip
    proto: Any = ModelProto.FromString(trained.getvalue())
    special = [piece for piece in proto.pieces if piece.type != 1]
    characters = sorted(
        {c for sentence in SENTENCES for c in sentence if c not in " \t"} | {"\u2581", *"abcdefghijklmnopqrstuvwxyz"}
    )
    del proto.pieces[:]
    proto.pieces.extend(special)
    long = dict.fromkeys(piece for piece in islice(_pieces(), 4 * size) if len(piece) > 1)
    chosen = [*islice(long, size - len(special) - len(characters)), *characters]
    for rank, piece in enumerate(chosen):
        score = -float(rank) if kind == "bpe" else -1.0 - 20 * rank / size
        proto.pieces.add(piece=piece, score=score, type=1)
    proto.trainer_spec.vocab_size = len(proto.pieces)
    assert len(proto.pieces) == size
    path.write_bytes(proto.SerializeToString())
