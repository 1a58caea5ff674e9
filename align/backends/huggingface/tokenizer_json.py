"""A tokenizer.json, read and run by the library tokenizers, which a damaged one can make raise nearly anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from align.backends.huggingface.config import lacks, read_json
from align.errors import ModelError, one_line

MOST_GROWTH = 4096
"""How many times as long a text may become before it is cut into pieces: a dozen replaced letters, each by two."""


def read_tokenizer(path: Path) -> tuple[Any, Callable[[str], list[str]]]:
    """The tokeniser of a file, and what cuts a text into pieces with it.

    A text over which the library fails becomes `<unk>`.

    Raises:
        ModelError: the file is damaged, or would make texts far longer than they are.
    """
    try:
        from tokenizers import Tokenizer
    except ModuleNotFoundError as error:
        raise lacks(error) from None
    content = read_json(path)
    if _growth([content.get("normalizer"), content.get("pre_tokenizer")]) > MOST_GROWTH:
        raise ModelError("its normalizer would make texts thousands of times as long", file=str(path))

    def cut(text: str) -> list[str]:
        return list(tokenizer.encode(text, add_special_tokens=False).tokens)

    try:
        tokenizer: Any = Tokenizer.from_file(str(path))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        cut("b a")
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # of the library's own kinds, some of which are not Exceptions
        raise ModelError(f"not a tokenizer ({one_line(error)})", file=str(path)) from None

    def pieces(text: str) -> list[str]:
        try:
            return cut(text)
        except (KeyboardInterrupt, SystemExit, MemoryError):
            raise
        except BaseException:
            return ["<unk>"]

    return tokenizer, pieces


def _growth(parts: list[Any]) -> int:
    """How many times as long the steps of a normalizer can make a text, at most."""
    growth = 1
    while parts and growth <= MOST_GROWTH:
        part = parts.pop()
        if isinstance(part, dict):
            inserted = (part.get(name) for name in ("content", "prepend"))
            growth *= 1 + sum(len(text) for text in inserted if isinstance(text, str))
            parts.extend(part.values())
        elif isinstance(part, list):
            parts.extend(part)
    return growth
