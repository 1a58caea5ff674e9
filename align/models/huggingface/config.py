"""Read a model's config.json, which is not trusted: each value is read by name, and its type is checked."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from align.core.errors import ModelError, show_value

MAX_POSITIONS, USUAL_POSITIONS = 10_000, 1024
"""Limits of pieces where positions are not weights: the maximum, and the default without a setting, as for T5. Time and
memory of attention grow with their square."""


def read_file(path: Path) -> bytes:
    """Return the content of a file."""
    if not path.is_file():  # a pipe would never end
        raise ModelError("no such file", file=str(path))
    return path.read_bytes()


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file."""
    raw = read_file(path)
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError):
        raise ModelError("not JSON; it may be cut short or damaged", file=str(path)) from None
    if not isinstance(content, dict):
        raise ModelError("not a JSON object", file=str(path))
    return content


USUAL_BYTES = 4 * USUAL_POSITIONS
"""Default limit of ByT5, whose pieces are bytes."""


def unlearned_positions(config: Config, usual: int = USUAL_POSITIONS) -> int:
    """Return the maximum number of pieces on either side of a model whose positions are computed or relative."""
    return min(config.size("max_position_embeddings", usual), MAX_POSITIONS)


def lacks(error: ModuleNotFoundError) -> ModuleNotFoundError:
    """Return the error for a missing library that only Hugging Face models need."""
    return ModuleNotFoundError(
        f"{error.name} is not installed, which Hugging Face models need: "
        "pip install safetensors tokenizers huggingface_hub"
    )


class Config:
    """Settings by name, and their file for messages; a value that is missing or has another type is a ModelError."""

    def __init__(self, content: Mapping[str, Any], file: str) -> None:
        self.content, self.file = content, file

    @property
    def kind(self) -> str:
        """The `model_type`; empty if the file has none."""
        return self.word("model_type", "")

    def has(self, name: str) -> bool:
        """Tell whether a setting has a value other than null."""
        return self.content.get(name) is not None

    def _wrong(self, name: str, expected: str) -> ModelError:
        return ModelError(f"its {name} is {show_value(self.content.get(name))}, not {expected}", file=self.file)

    def size(self, name: str, otherwise: int | None = None, least: int = 1, most: int = (1 << 31) - 1) -> int:
        """Return a whole number from `least` to `most`."""
        value = self.content.get(name)
        if value is None and otherwise is not None:
            return otherwise
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self._wrong(name, f"a whole number from {least}" + (f" to {most}" if most < 1 << 30 else ""))
        return value

    def number(self, name: str) -> float:
        """Return a finite number."""
        value = self.content.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < 1e9:
            raise self._wrong(name, "a number")
        return float(value)

    def share(self, name: str) -> float:
        """Return a number from 0 to 1."""
        value = self.content.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
            raise self._wrong(name, "a number from 0 to 1")
        return float(value)

    def switch(self, name: str, otherwise: bool) -> bool:
        """Return true or false."""
        value = self.content.get(name)
        if value is None:
            return otherwise
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def inner(self, name: str) -> Config:
        """Return the settings in a nested object; empty if it is missing."""
        value = self.content.get(name)
        return Config(value if isinstance(value, dict) else {}, self.file)

    def word(self, name: str, otherwise: str) -> str:
        """Return a short string."""
        value = self.content.get(name)
        if value is None:
            return otherwise
        if not isinstance(value, str) or len(value) > 100:
            raise self._wrong(name, "a word")
        return value

    def one_of(self, name: str, known: Collection[str]) -> str:
        """Return a string that is in `known`."""
        value = self.word(name, "")
        if value not in known:
            raise self._wrong(name, "one that is known here")
        return value

    def id(self, name: str) -> int | None:
        """Return the id of a piece, the first of several; None if there is none."""
        value = self.content.get(name)
        if isinstance(value, list) and value:
            value = value[0]
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 31:
            raise self._wrong(name, "the number of a piece")
        return value


def tokenizer_config(root: Path) -> Config:
    """Read a folder's tokenizer_config.json; empty if the file is missing."""
    path = root / "tokenizer_config.json"
    return Config(read_json(path) if path.is_file() else {}, str(path))
