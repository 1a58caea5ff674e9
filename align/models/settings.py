"""Read settings of models in JSON, which are not trusted: each value is read by name, and its type is checked."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
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


def unlearned_positions(config: Config, usual: int = USUAL_POSITIONS) -> int:
    """Return the maximum number of pieces on either side of a model whose positions are computed or relative."""
    return min(config.size("max_position_embeddings", usual), MAX_POSITIONS)


@contextmanager
def importing() -> Iterator[None]:
    """Say how to install a missing library that only Hugging Face models need."""
    try:
        yield
    except ModuleNotFoundError as error:
        message = f"{error.name} is not installed, which Hugging Face models need: pip install safetensors"
        raise ModuleNotFoundError(f"{message} tokenizers huggingface_hub") from None


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

    def _read(
        self,
        name: str,
        otherwise: object,
        kind: type | tuple[type, ...],
        expected: str,
        fits: Callable[[Any], bool] = lambda value: True,
    ) -> Any:
        """Return a value of a type that fits, or `otherwise` for a missing one unless that is None."""
        value = self.content.get(name)
        if value is None and otherwise is not None:
            return otherwise
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool) or not fits(value):
            raise ModelError(f"its {name} is {show_value(value)}, not {expected}", file=self.file)
        return value

    def size(self, name: str, otherwise: int | None = None, least: int = 1, most: int = (1 << 31) - 1) -> int:
        """Return a whole number from `least` to `most`."""
        expected = f"a whole number from {least}" + (f" to {most}" if most < 1 << 30 else "")
        return int(self._read(name, otherwise, int, expected, lambda n: least <= n <= most))

    def number(self, name: str, otherwise: float | None = None) -> float:
        """Return a finite number."""
        return float(self._read(name, otherwise, (int, float), "a number", lambda n: abs(n) < 1e9))

    def positive(self, name: str, otherwise: float) -> float:
        """Return a number above 0."""
        return float(self._read(name, otherwise, (int, float), "a number above 0", lambda n: 0 < n < 1e9))

    def share(self, name: str) -> float:
        """Return a number from 0 to 1."""
        return float(self._read(name, None, (int, float), "a number from 0 to 1", lambda n: 0 <= n <= 1))

    def switch(self, name: str, otherwise: bool) -> bool:
        """Return true or false."""
        return bool(self._read(name, otherwise, bool, "true or false"))

    def inner(self, name: str) -> Config:
        """Return the settings in a nested object; empty if it is missing."""
        value = self.content.get(name)
        return Config(value if isinstance(value, dict) else {}, self.file)

    def word(self, name: str, otherwise: str) -> str:
        """Return a short string."""
        return str(self._read(name, otherwise, str, "a word", lambda word: len(word) <= 100))

    def one_of(self, name: str, known: Collection[str], otherwise: str | None = None) -> str:
        """Return a string that is in `known`."""
        return str(self._read(name, otherwise, str, f"one of {', '.join(known)}", known.__contains__))

    def id(self, name: str) -> int | None:
        """Return the id of a piece, the first of several; None if there is none."""
        value = self.content.get(name)
        value = value[0] if isinstance(value, list) and value else value
        return None if value is None else Config({name: value}, self.file).size(name, least=0)


def read_config(path: Path) -> Config:
    """Read the settings in a JSON file."""
    return Config(read_json(path), str(path))


def tokenizer_config(root: Path) -> Config:
    """Read a folder's tokenizer_config.json; empty if the file is missing."""
    path = root / "tokenizer_config.json"
    return Config(read_json(path) if path.is_file() else {}, str(path))
