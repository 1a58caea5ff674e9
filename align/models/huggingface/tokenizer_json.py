"""Read a tokenizer.json with the library tokenizers, which may raise nearly anything for a damaged file."""

from __future__ import annotations

import base64
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from align.core.errors import ModelError, one_line, show_value
from align.core.types import TextWarning
from align.models.charsmap import longest_replacement
from align.models.detokenize import JOINS, Join
from align.models.huggingface.config import lacks, read_json

MOST_GROWTH = 1000
"""Maximum factor by which a text may grow before it is cut into pieces, in the pieces, or after.

A table of NFKC, `Replace`, `Metaspace` and `<unk>`, as in NLLB, make 33 * 2 * 2 * 5.
"""

GROWTH = {
    **{"NFC": 3, "NFD": 4, "NFKC": 18, "NFKD": 18, "ByteLevel": 5},
    **{"handle_chinese_chars": 3, "replacement": 2, "suffix": 2, "cleanup": 2},
}
"""Factors by which steps may lengthen a text although they insert no string of the file.

They are known by their type, or by a setting that they require where the library does not check the type. `replacement`
is that of Metaspace, which begins each part of a text with this character.
"""

MEMBERS = ("normalizers", "pretokenizers", "processors", "decoders")
"""Lists of steps within a step."""

TYPES = {
    "BPEDecoder", "BertNormalizer", "BertPreTokenizer", "BertProcessing", "ByteFallback", "ByteLevel", "CTC",
    "CharDelimiterSplit", "Digits", "FixedLength", "Fuse", "Lowercase", "Metaspace", "NFC", "NFD", "NFKC", "NFKD",
    "Nmt", "Precompiled", "Prepend", "Punctuation", "Replace", "RobertaProcessing", "Sequence", "Split", "Strip",
    "StripAccents", "TemplateProcessing", "UnicodeScripts", "Whitespace", "WhitespaceSplit", "WordPiece",
}  # fmt: skip
"""Types of steps."""

INSERTED = ("content", "prepend")
"""Strings that steps insert."""

AROUND_PIECES = ("continuing_subword_prefix", "end_of_word_suffix")
"""Strings that a model adds to pieces."""

LONGEST_PIECE = 1000
"""Maximum characters of a piece."""

LONGEST_WORD = 1000
"""Maximum of WordPiece's `max_input_chars_per_word`: its time grows with the cube of a word's length."""

MOST_ADDED_TEXT = 10_000_000
"""Maximum characters of all added tokens once they are normalised, which the library does as it reads the file."""

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
        ModelError: the file is damaged, or would make texts far longer than they are, or add many tokens to them, or
            take long for a word.
    """
    try:
        from tokenizers import Tokenizer
    except ModuleNotFoundError as error:
        raise lacks(error) from None
    content = read_json(path)
    _check(content, str(path))

    def cut(text: str) -> list[str]:
        return list(tokenizer.encode(text, add_special_tokens=False).tokens)

    try:
        tokenizer: Any = Tokenizer.from_str(json.dumps(content))  # the file may repeat keys, of which one is checked
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

    failed: list[str] = []

    def pieces(text: str) -> list[str]:
        try:
            return cut(text)
        except (KeyboardInterrupt, SystemExit, MemoryError):
            raise
        except BaseException as error:
            if not failed:
                failed.append(text)
                message = f"{path}: fails on some texts, which become <unk>: {one_line(error)}"
                warnings.warn(message, TextWarning, stacklevel=2)
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


def _check(content: Mapping[str, Any], file: str) -> None:
    """Check what reading and using a tokenizer.json would cost, before the library reads it."""
    model = content.get("model")
    if not isinstance(model, dict):
        raise ModelError("its model is not an object", file=file)
    normalizer, *others, decoder = (
        [*_steps(content.get(name), name, file)]
        for name in ("normalizer", "pre_tokenizer", "post_processor", "decoder")
    )
    lengths = {name: len(text) for name, text in model.items() if isinstance(text, str)}
    pieces = max(1 + sum(lengths.get(name, 0) for name in AROUND_PIECES), lengths.get("unk_token", 0))
    for name, growth in (
        ("normalizer", _growth([*normalizer, *(step for steps in others for step in steps)]) * pieces),
        ("decoder", _growth(decoder)),
    ):
        if growth > MOST_GROWTH:
            raise ModelError(f"its {name} would make texts more than {MOST_GROWTH:,} times as long", file=file)
    parts = [*islice(_parts(content.get("post_processor")), MOST_PARTS + 1)]
    if len(parts) > MOST_PARTS or any(isinstance(part, list) and len(part) > MOST_AROUND for part in parts):
        message = f"its post_processor has a list of more than {MOST_AROUND} items, or {MOST_PARTS:,} in all"
        raise ModelError(message, file=file)
    longest_word = model.get("max_input_chars_per_word")
    if isinstance(longest_word, int) and longest_word > LONGEST_WORD:
        raise ModelError(f"its max_input_chars_per_word is more than {LONGEST_WORD:,}", file=file)
    _check_pieces(model.get("vocab"), file)
    _check_merges(model, file)
    added = content.get("added_tokens") or []
    if not (isinstance(added, list) and all(isinstance(token, dict) for token in added)):
        raise ModelError("its added_tokens are not a list of objects", file=file)
    if sum(len(str(token.get("content"))) for token in added) * _growth(normalizer) > MOST_ADDED_TEXT:
        raise ModelError(f"its added_tokens have more than {MOST_ADDED_TEXT:,} characters in normal form", file=file)


def _check_pieces(vocab: Any, file: str) -> None:
    """Check the pieces of a model, an object that maps them to numbers or a list of pieces with scores."""
    entries = [[piece] for piece in vocab] if isinstance(vocab, dict) else vocab if isinstance(vocab, list) else []
    if any(len(str(entry[0])) > LONGEST_PIECE for entry in entries if isinstance(entry, list) and entry):
        raise ModelError(f"its vocabulary has a piece of more than {LONGEST_PIECE:,} characters", file=file)
    if isinstance(vocab, dict) and len({str(number) for number in vocab.values()}) < len(vocab):
        raise ModelError("two pieces of its vocabulary have the same number", file=file)


def _check_merges(model: Mapping[str, Any], file: str) -> None:
    """Check the merges of a model with a prefix, of which the library cuts off as many bytes."""
    prefix, merges = model.get("continuing_subword_prefix"), model.get("merges")
    if not prefix or not isinstance(merges, list):
        return
    parts = [merge.split(" ") if isinstance(merge, str) else merge for merge in merges]
    if not isinstance(prefix, str) or not all(
        isinstance(part, list) and len(part) == 2 and isinstance(part[1], str) and part[1].startswith(prefix)
        for part in parts
    ):
        raise ModelError("its merges do not have its continuing_subword_prefix in their second part", file=file)


def _steps(step: Any, name: str, file: str) -> Iterator[dict[str, Any]]:
    """Yield a step of a tokenizer and the steps in it."""
    steps = [] if step is None else [step]
    while steps:
        step = steps.pop()
        kind = step.get("type") if isinstance(step, dict) else None
        if not (isinstance(kind, str) and kind in TYPES):
            shown = f"type {show_value(kind)}" if isinstance(kind, str) else "no type"
            raise ModelError(f"its {name} has a step of {shown}; the file may be damaged", file=file)
        yield step
        for members in map(step.get, MEMBERS):
            steps.extend(members if isinstance(members, list) else [] if members is None else [members])


def _parts(value: Any) -> Iterator[Any]:
    """Yield a value of JSON and all values in it."""
    parts = [value]
    while parts:
        part = parts.pop()
        yield part
        parts.extend(part.values() if isinstance(part, dict) else part if isinstance(part, list) else ())


def _growth(steps: Iterable[dict[str, Any]]) -> int:
    """Return an upper bound of the factor by which the steps of a tokenizer lengthen a text, in characters."""
    growth = 1
    for step in steps:
        growth *= 1 + sum(len(step[name]) for name in INSERTED if isinstance(step.get(name), str))
        growth *= max(GROWTH.get(name, 1) for name in (*step, step["type"]))
        if "precompiled_charsmap" in step:
            with suppress(TypeError, ValueError):  # the tokenizer refuses these itself
                growth *= max(1, longest_replacement(base64.b64decode(step["precompiled_charsmap"])))
        for name, texts in (("single", 1), ("pair", 2)):
            if isinstance(template := step.get(name), list):  # which may name a text more than once
                growth *= max(1, sum(isinstance(part, dict) and "Sequence" in part for part in template) - texts + 1)
        if growth > MOST_GROWTH:
            break
    return growth
