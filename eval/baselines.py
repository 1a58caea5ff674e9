"""Links of statistical aligners for an experiment's text, trained on one of its texts with the former appended."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterator
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from align.baselines.tools import Cut, align_with, describe_tool, lower_case
from align.core.types import Links
from align.evaluation.link_formats import parse_pharaoh
from eval.common import Text, letters, paths_of, read_train

_THREADS = {"giza": 2}
"""One for each direction of GIZA++; others get a single one, so that links depend on no number of threads."""


class Baseline(NamedTuple):
    """What a statistical aligner links.

    Attributes:
        tool: which it is, for signatures: `align.baselines.tools.describe_tool`.
        links: the links of both directions of each pair.
    """

    tool: str
    links: list[tuple[Links, Links]]


class Baselines(NamedTuple):
    """Statistical aligners, some of which take hours.

    Attributes:
        data: the folder that the texts are in.
        kept: a folder where links are kept, and looked for: a file for each aligner, text and pieces, whose first line
            names the tool; None for none.
    """

    data: Path
    kept: Path | None = None

    def align(self, tool: str, about: dict[str, Any], text: Text, cut: Cut | None = None) -> Baseline:
        """Return the links of a text: stored ones of the installed version of the tool, or new ones.

        Args:
            tool: the aligner's name.
            about: what experiments.toml says of the training text, of which pairs of the text are left out.
            text: what to align.
            cut: returns the pieces that it gets of a pair; None for tokens in lower case.

        Raises:
            ModuleNotFoundError: the tool is not installed, and no links of it are kept.
            ValueError: a file of kept links is not what this writes.
        """
        path = self.kept / f"{tool}-{self._digest(about, text, cut)}.links" if self.kept else None
        found = read_kept(path, len(text.pairs)) if path and path.exists() else None
        try:
            described = describe_tool(tool)
        except ModuleNotFoundError:
            if found is None:
                raise
            return found
        if found is None or found.tool != described:
            found = Baseline(described, self._run(tool, about, text, cut))
            if path:
                write_kept(found, path)
        return found

    def _run(self, tool: str, about: dict[str, Any], text: Text, cut: Cut | None) -> list[tuple[Links, Links]]:
        tested = {letters(pair) for pair in map(lower_case, text.pairs)}
        bitext = read_train(about, self.data, not cut)
        train = (pair for pair in bitext if letters(lower_case(pair)) not in tested)
        pairs = chain(train, text.pairs if cut else map(lower_case, text.pairs))
        links = align_with(tool, pairs, threads=_THREADS.get(tool, 1), cut=cut)
        return list(deque(links, maxlen=len(text.pairs)))  # of the text, which comes last

    def _digest(self, about: dict[str, Any], text: Text, cut: Cut | None) -> str:
        """Of all that the links depend on, beside the tool."""
        digest = blake2b(digest_size=8)
        settings: list[object] = [about, [[pair.source, pair.target] for pair in text.pairs]]
        if cut:  # pieces are the same after a model has been trained further
            settings.append([(list(pieces.source), list(pieces.target)) for pieces in map(cut, text.pairs)])
        digest.update(json.dumps(settings).encode())
        for block in self._bytes(about):
            digest.update(block)
        return digest.hexdigest()

    def _bytes(self, about: dict[str, Any]) -> Iterator[bytes]:
        for key in ("source", "target", "labels"):
            for path in paths_of(about, key, self.data):
                yield path.read_bytes()


def read_kept(path: Path, pairs: int) -> Baseline:
    """Read the links of a text with this number of pairs."""
    try:
        first, *lines = path.read_text(encoding="ascii").splitlines()
        if len(lines) != pairs:
            raise ValueError(f"links of {len(lines):,} pairs, where the text has {pairs:,}")
        both = (line.split("\t") for line in lines)
        links = [(parse_pharaoh(forward), parse_pharaoh(reverse)) for forward, reverse in both]
    except ValueError as error:
        raise ValueError(f"{path} cannot be used ({error}): remove it to have it made again") from None
    return Baseline(first.removeprefix("# "), links)


def write_kept(found: Baseline, path: Path) -> None:
    """Write links for `read_kept`."""
    lines = [f"# {found.tool}", *("\t".join(map(_as_text, both)) for both in found.links)]
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
    os.replace(part, path)


def _as_text(links: Links) -> str:
    return " ".join(f"{i}-{j}" for i, j in sorted(links))
