"""Read a tokenizer.json with the library tokenizers, which may raise nearly anything for a damaged file."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from align.core.errors import ModelError, one_line
from align.models.detokenize import JOINS
from align.models.preprocess import Segment
from align.models.settings import importing, read_json

T = TypeVar("T")


class JsonTokenizer:
    """A tokenizer.json: an object of the library tokenizers, the id of every piece, and pieces that are no words.

    An object may be given, for a `path` of another kind.
    """

    def __init__(self, path: Path, tokenizer: Any = None) -> None:
        with importing():
            from tokenizers import Tokenizer
        content = read_json(path) if tokenizer is None else {}
        model = content["model"] if isinstance(content.get("model"), dict) else {}
        if (prefix := model.get("continuing_subword_prefix")) and isinstance(model.get("merges"), list):
            merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
            if not all(str(merge[-1]).startswith(str(prefix)) for merge in merges if isinstance(merge, list) and merge):
                # the library cuts off as many bytes, and ends the process if that is within a character
                message = "its merges do not have its continuing_subword_prefix in their second part"
                raise ModelError(message, file=str(path))
        try:  # by the content that was checked, since the file may repeat keys
            self.tokenizer: Any = tokenizer or call_library(lambda: Tokenizer.from_str(json.dumps(content)))
            self.tokenizer.no_padding()
            self.tokenizer.no_truncation()
            if getattr(self.tokenizer.model, "dropout", None):  # BPE-dropout, for training
                self.tokenizer.model.dropout = None
            decoder = self.tokenizer.decoder
            self._join: Callable[[Sequence[str]], str] = decoder.decode if decoder else JOINS["sentencepiece"]
            inner, whole = (call_library(self.tokenizer.encode, "b a", None, False, added) for added in (False, True))
            call_library(self._join, inner.tokens)
        except ValueError as error:
            raise ModelError(f"not a tokenizer ({error})", file=str(path)) from None
        self.ids: dict[str, int] = self.tokenizer.get_vocab(with_added_tokens=True)
        added = self.tokenizer.get_added_tokens_decoder().values()
        self.special = frozenset(str(token.content) for token in added if token.special)
        # ids that the tokenizer adds before and after a text; None if it adds none, or changes the text
        self.surroundings: tuple[Sequence[int], Sequence[int]] | None = None
        length = len(inner.ids)
        for start in range(len(whole.ids) - length, -1, -1):
            if len(whole.ids) > length and whole.ids[start : start + length] == inner.ids:
                self.surroundings = whole.ids[:start], whole.ids[start + length :]

    def pieces(self, text: str) -> list[str]:
        """Cut a text into pieces; one on which the library fails is `<unk>`."""
        try:
            return list(call_library(self.tokenizer.encode, text, None, False, False).tokens)
        except ValueError:
            return ["<unk>"]

    @property
    def segment(self) -> Segment:
        """What cuts a word into pieces, as they are within a sentence."""
        second = self.pieces("b a")[len(self.pieces("b")) :]
        lead = next((lead for lead in ("", " ") if self.pieces(f"{lead}a") == second), "")
        return lambda word, first: self.pieces(word if first else lead + word)

    def join(self, pieces: Sequence[str]) -> str:
        """Join pieces into text; pieces on which the library fails are `<unk>`."""
        try:
            return call_library(self._join, pieces)
        except ValueError:
            return "<unk>"


def call_library(do: Callable[..., T], *arguments: Any) -> T:
    """Return the result of a function of the library; its errors, some of which are no Exceptions, are ValueErrors."""
    try:
        return do(*arguments)
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:
        raise ValueError(one_line(error)) from None
