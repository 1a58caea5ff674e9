"""Small jobs of many files: their texts, and what comes of them."""

from __future__ import annotations

import multiprocessing
import os
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from align.cli import main as program
from tests import toy

SHARED = ("-m", "toy/checkpoint.pt", "--device", "cpu", "--threads", "1")


def command(*arguments: object) -> tuple[object, ...]:
    """Return the arguments of a command with those that all jobs share."""
    return (*arguments, *SHARED)


def sentences(count: int, seed: int) -> list[tuple[str, str]]:
    """Pairs of toy words; every tenth is blank."""
    draw = random.Random(seed)

    def side(words: list[str]) -> str:
        return " ".join(draw.choices(words, k=draw.randrange(1, 9)))

    return [("", "") if n % 10 == 3 else (side(toy.SOURCE_WORDS), side(toy.TARGET_WORDS)) for n in range(count)]


def lines(pairs: list[tuple[str, str]], between: str = "\t") -> bytes:
    """Pairs as lines of text."""
    return "".join(f"{source}{between}{target}\n" for source, target in pairs).encode()


def strings(data: Sequence[bytes | None]) -> Any:
    """A column of what a file calls strings, whatever is in it."""
    return pa.Array.from_buffers(pa.string(), len(data), pa.array(data, pa.binary()).buffers())


def tree(folder: str | Path) -> dict[str, bytes]:
    """All complete files of a folder's own, by name."""
    return {path.name: path.read_bytes() for path in Path(folder).glob("[!.]*") if path.is_file()}


def drive(*arguments: object, before: Callable[[], object] | None = None) -> int | None:
    """The command in a process of its own, which has the parts of this one that were replaced; its exit code.

    Args:
        arguments: of the command.
        before: to do in that process first.
    """

    def main() -> None:
        if before:
            before()
        sys.argv = ["extract-align", *map(str, command(*arguments))]
        os._exit(program.main())

    process = multiprocessing.get_context("fork").Process(target=main)
    process.start()
    process.join(60)
    return process.exitcode
