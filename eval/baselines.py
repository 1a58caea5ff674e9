"""Links of statistical aligners for an experiment's text, trained on one of its texts with the former appended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from common import Text, letters, read_train

from align.backends.base import Recorder
from align.statistical.tools import align_with, lower_case
from align.types import Links


def tool_links(
    tool: str, about: dict[str, Any], data: Path, text: Text, recorder: Recorder | None = None
) -> list[tuple[Links, Links]]:
    """The links of both directions of each pair.

    Args:
        tool: the aligner's name.
        about: what experiments.toml says of the training text, of which pairs of the text are left out.
        data: the folder that its files are in.
        text: what to align.
        recorder: of the model whose pieces it gets; None for tokens in lower case.
    """
    tested = {letters(pair) for pair in map(lower_case, text.pairs)}
    train = (pair for pair in read_train(about, data, not recorder) if letters(lower_case(pair)) not in tested)
    pairs = text.pairs if recorder else map(lower_case, text.pairs)
    return list(align_with(tool, pairs, train=train, append=True, cut=recorder.encode if recorder else None))
