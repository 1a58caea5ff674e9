"""Join the pieces that a model has generated into words: the reverse of `align.models.preprocess`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any

from align.core.text import split_words
from align.models.preprocess import TextRules

Join = Callable[[Sequence[str]], str]  # joins pieces into tokens with spaces between them

UNKNOWN = "\U0003134a"
"""Stands for an unknown piece in a translation: a character that no model's vocabulary has."""

BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def _join_sentencepiece(pieces: Sequence[str]) -> str:
    """Join pieces of sentencepiece; with byte fallback, pieces such as `<0xC3>` are bytes of UTF-8."""
    text = ""
    for are_bytes, run in groupby(pieces, lambda piece: bool(BYTE.fullmatch(piece))):
        joined = "".join(run)
        if are_bytes:
            content = bytes.fromhex(BYTE.sub(r"\1", joined))
            escaped = content.decode(errors="surrogateescape")  # which makes these of bytes that are no UTF-8
            text += re.sub("[\udc80-\udcff]", "\ufffd", escaped)
        else:
            text += joined.replace("\u2581", " ")
    return text


def _join_subword_nmt(pieces: Sequence[str]) -> str:
    return (" ".join(pieces) + " ").replace("@@ ", "")


JOINS: dict[str, Join] = {
    "sentencepiece": _join_sentencepiece,
    "subword-nmt": _join_subword_nmt,
    "subword-nmt-vocabulary": _join_subword_nmt,
    "none": " ".join,
}
"""Functions that join pieces, for each of `align.models.preprocess.SUBWORDS`."""


class Detokenizer:
    """Converts a model's pieces to words: joins subwords, by default those of `rules`, and Moses' tokens."""

    def __init__(self, rules: TextRules, join: Join | None = None) -> None:
        self._join = join or JOINS[rules.subwords]
        self._unescape = rules.tokenizer.startswith("moses-escaped")
        self._moses: Any = None
        if rules.tokenizer != "none":
            from sacremoses import MosesDetokenizer

            self._moses = MosesDetokenizer(lang=rules.language)

    def __call__(self, pieces: Sequence[str]) -> tuple[str, ...]:
        """Return the words, cut at ASCII space and TAB.

        Any character that some programs treat as a line's end, such as U+2028, ends a word too; three bars or more,
        which would end a side of `source ||| target`, become words of one bar each.
        """
        text = self._join(pieces)
        if self._moses:
            with suppress(TypeError):  # sacremoses 0.2 fails at a Czech `' -li`: such tokens stay as they are
                text = self._moses.detokenize(text.split(" "), unescape=self._unescape)
        text = re.sub(r"\|{3,}", lambda bars: " ".join(bars[0]), " ".join(text.splitlines()))
        return split_words(text)
