"""Read a tokenizer.json with the library tokenizers, which may raise nearly anything for a damaged file."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from align.core.errors import ModelError, one_line
from align.models.charsmap import longest_replacement
from align.models.detokenize import JOINS, Join
from align.models.huggingface.config import lacks, read_json

MOST_GROWTH = 10_000
"""Maximum factor by which a text may grow before it is cut into pieces, in the pieces, or after."""

GROWTH = {
    **{"NFC": 3, "NFD": 4, "NFKC": 18, "NFKD": 18, "ByteLevel": 5},
    **{"handle_chinese_chars": 3, "replacement": 2, "trim_offsets": 5, "suffix": 2, "cleanup": 2},
}
"""Factors by which steps may lengthen a text although they insert no string of the file.

They are known by their type, or by a setting that they require where the type may be missing. `replacement` is that of
Metaspace, which begins each part of a text with this character.
"""

INSERTED = ("content", "prepend", "unk_token", "continuing_subword_prefix", "end_of_word_suffix")
"""Strings that steps insert, and pieces of which a model may make one of each character."""

MOST_AROUND = 20
"""Maximum length of a list in a post-processor: it puts a few tokens around a text, and each has one id."""

MOST_PARTS = 1000
"""Maximum number of values in a post-processor."""


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
    """Read a tokenizer.json.

    Raises:
        ModelError: the file is damaged, or would make texts far longer than they are, or add many tokens to them.
    """
    try:
        from tokenizers import Tokenizer
    except ModuleNotFoundError as error:
        raise lacks(error) from None
    content = read_json(path)
    model = content.get("model")
    marks = {name: model.get(name) for name in INSERTED} if isinstance(model, dict) else {}
    for name, steps in (
        ("normalizer", [*map(content.get, ("normalizer", "pre_tokenizer", "post_processor")), marks]),
        ("decoder", [content.get("decoder")]),
    ):
        if _growth(steps) > MOST_GROWTH:
            raise ModelError(f"its {name} would make texts thousands of times as long", file=str(path))
    parts = [*islice(_parts(content.get("post_processor")), MOST_PARTS + 1)]
    if len(parts) > MOST_PARTS or any(isinstance(part, list) and len(part) > MOST_AROUND for part in parts):
        raise ModelError(
            f"its post_processor has a list of more than {MOST_AROUND} items, or {MOST_PARTS:,} in all", file=str(path)
        )

    def cut(text: str) -> list[str]:
        return list(tokenizer.encode(text, add_special_tokens=False).tokens)

    try:
        tokenizer: Any = Tokenizer.from_file(str(path))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        if getattr(tokenizer.model, "dropout", None):  # BPE-dropout, for training
            tokenizer.model.dropout = None
        join: Join = tokenizer.decoder.decode if tokenizer.decoder else JOINS["sentencepiece"]
        join(cut("b a"))
        surroundings = _surroundings(tokenizer, "b a")
        ids: dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
        added = tokenizer.get_added_tokens_decoder().values()
        special = frozenset(token.content for token in added if token.special)
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # some of the library's own are not Exceptions
        raise ModelError(f"not a tokenizer ({one_line(error)})", file=str(path)) from None

    def pieces(text: str) -> list[str]:
        try:
            return cut(text)
        except (KeyboardInterrupt, SystemExit, MemoryError):
            raise
        except BaseException:
            return ["<unk>"]

    def text_of(pieces: Sequence[str]) -> str:
        try:
            return join(pieces)
        except (KeyboardInterrupt, SystemExit, MemoryError):
            raise
        except BaseException:
            return "<unk>"

    return JsonTokenizer(tokenizer, ids, special, pieces, text_of, surroundings)


def _surroundings(tokenizer: Any, text: str) -> tuple[Sequence[int], Sequence[int]] | None:
    """Return the ids that a tokenizer adds before and after a text; None if it adds none, or changes the text."""
    inner, whole = (tokenizer.encode(text, add_special_tokens=added).ids for added in (False, True))
    added_count = len(whole) - len(inner)
    starts = (start for start in range(added_count + 1) if whole[start : start + len(inner)] == inner)
    start = next(starts, None) if added_count > 0 else None
    return None if start is None else (whole[:start], whole[start + len(inner) :])


def _parts(value: Any) -> Iterator[Any]:
    """Yield a value of JSON and all values in it."""
    parts = [value]
    while parts:
        part = parts.pop()
        yield part
        parts.extend(part.values() if isinstance(part, dict) else part if isinstance(part, list) else ())


def _growth(steps: list[Any]) -> int:
    """Return an upper bound of the factor by which the steps of a tokenizer lengthen a text, in characters."""
    growth = 1
    for step in _parts(steps):
        if not isinstance(step, dict):
            continue
        growth *= 1 + sum(len(step[name]) for name in INSERTED if isinstance(step.get(name), str))
        growth *= max(GROWTH.get(name, 1) for name in (*step, str(step.get("type"))))
        if step.get("type") == "Precompiled":
            with suppress(TypeError, ValueError):  # the tokenizer refuses these itself
                growth *= max(1, longest_replacement(base64.b64decode(step["precompiled_charsmap"])))
        for template in (step.get("single"), step.get("pair")):
            if isinstance(template, list):  # which may name the text more than once
                named = [str(part["Sequence"]) for part in template if isinstance(part, dict) and "Sequence" in part]
                growth *= max(map(named.count, named), default=1)
        if growth > MOST_GROWTH:
            break
    return growth
