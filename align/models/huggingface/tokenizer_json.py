"""Read a tokenizer.json with the library tokenizers, which may raise nearly anything for a damaged file."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from align.core.errors import ModelError, one_line
from align.core.types import TextWarning
from align.models.detokenize import JOINS, Join
from align.models.huggingface.config import lacks, read_json

T = TypeVar("T")


@dataclass(frozen=True)
class JsonTokenizer:
    """The content of a tokenizer.json.

    Attributes:
        tokenizer: an object of the library tokenizers.
        ids: the id of every piece.
        special: pieces that belong to no word.
        pieces: cuts a text into pieces; a text on which the library fails becomes `<unk>`.
        join: joins pieces into text.
        surroundings: ids that the tokenizer adds before and after a text; None if it adds none.
    """

    tokenizer: Any
    ids: dict[str, int]
    special: frozenset[str]
    pieces: Callable[[str], list[str]]
    join: Join
    surroundings: tuple[Sequence[int], Sequence[int]] | None


def read_tokenizer(path: Path) -> JsonTokenizer:
    """Read a tokenizer.json."""
    try:
        from tokenizers import Tokenizer
    except ModuleNotFoundError as error:
        raise lacks(error) from None
    content = read_json(path)
    model = content["model"] if isinstance(content.get("model"), dict) else {}
    if (prefix := model.get("continuing_subword_prefix")) and isinstance(model.get("merges"), list):
        merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
        seconds = [merge[-1] for merge in merges if isinstance(merge, list) and merge]
        if not all(str(second).startswith(str(prefix)) for second in seconds):
            # the library cuts off as many bytes, and ends the process if that is within a character
            message = "its merges do not have its continuing_subword_prefix in their second part"
            raise ModelError(message, file=str(path))

    def read() -> JsonTokenizer:
        tokenizer: Any = Tokenizer.from_str(json.dumps(content))  # the file may repeat keys, of which one is checked
        tokenizer.no_padding()
        tokenizer.no_truncation()
        if getattr(tokenizer.model, "dropout", None):  # BPE-dropout, for training
            tokenizer.model.dropout = None

        def cut(text: str) -> list[str]:
            return list(tokenizer.encode(text, add_special_tokens=False).tokens)

        join: Join = tokenizer.decoder.decode if tokenizer.decoder else JOINS["sentencepiece"]
        join(cut("b a"))
        # The ids that it adds before and after a text, if it adds some and leaves the text as it is
        inner, whole = (tokenizer.encode("b a", add_special_tokens=added).ids for added in (False, True))
        extra = len(whole) - len(inner)
        starts = (start for start in range(extra + 1) if whole[start : start + len(inner)] == inner)
        start = next(starts, None) if extra > 0 else None
        surroundings = None if start is None else (whole[:start], whole[start + len(inner) :])
        added = tokenizer.get_added_tokens_decoder().values()
        special = frozenset(token.content for token in added if token.special)
        return JsonTokenizer(tokenizer, tokenizer.get_vocab(with_added_tokens=True), special, cut, join, surroundings)

    try:
        found = call_library(read)
    except ValueError as error:
        raise ModelError(f"not a tokenizer ({error})", file=str(path)) from None
    failed: list[str] = []

    def pieces(text: str) -> list[str]:
        try:
            return call_library(found.pieces, text)
        except ValueError as error:
            if not failed:
                failed.append(text)
                message = f"{path}: fails on some texts, which become <unk>: {error}"
                warnings.warn(message, TextWarning, stacklevel=2)
            return ["<unk>"]

    def join(pieces: Sequence[str]) -> str:
        try:
            return call_library(found.join, pieces)
        except ValueError:
            return "<unk>"

    return replace(found, pieces=pieces, join=join)


def call_library(do: Callable[..., T], *arguments: Any) -> T:
    """Return the result of a function of the library; its errors, some of which are no Exceptions, are ValueErrors."""
    try:
        return do(*arguments)
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:
        raise ValueError(one_line(error)) from None
