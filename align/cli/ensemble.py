"""`extract-align --ensemble`: average the scores of a text with the links of other aligners."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace

from align.cli.args import STATISTICAL
from align.core.symmetrize import mean_links, share_of_directions
from align.core.types import Alignment, LinkScores, Pair, Pieces
from align.evaluation.link_formats import check_range, read_scored
from align.io.checks import are_regular, check_lengths, open_text
from align.io.reader import Input, in_step, name_shown, open_lines, read_lines


@contextmanager
def open_partners(
    names: Sequence[str], text: Input, cut: Callable[[Pair], Pieces], threads: int
) -> Iterator[list[tuple[str, Iterator[LinkScores]]]]:
    """Open the scores of partners' links, with names for messages; `cut` splits a pair for a tool."""
    files = [text.files[0], *(name for name in names if name not in STATISTICAL)]
    if (text.parallel or len(text.files) == 1) and are_regular(files):
        check_lengths(files)
    with ExitStack() as stack:
        partners: list[tuple[str, Iterator[LinkScores]]] = []
        for name in names:
            if name in STATISTICAL:
                from align.baselines.tools import open_run

                pairs = stack.enter_context(open_text(text))
                _, links = stack.enter_context(open_run(name, pairs, threads=threads, cut=cut))
                partners.append((name, (share_of_directions(*both) for both in links)))
            else:
                lines = read_lines(stack.enter_context(open_lines(name)), name_shown(name))
                partners.append((name_shown(name), read_scored(lines, name_shown(name))))
        yield partners


def join(
    alignments: Generator[Alignment, None, None],
    name: str,
    partners: Sequence[tuple[str, Iterator[LinkScores]]],
    threshold: float,
    weight: int = 1,
) -> Generator[Alignment, None, None]:
    """Yield alignments with mean scores above a threshold; lines that are blank or skipped stay as they are.

    Scores of the alignments may be means themselves, of as many aligners as their weight.
    """
    names = [name, *(partner for partner, _ in partners)]
    weights = [float(weight), *(1.0 for _ in partners)]
    with closing(alignments):
        in_all = in_step([alignments, *(lines for _, lines in partners)], names)
        for number, (alignment, *scores) in enumerate(in_all, 1):
            if alignment.skipped or alignment.pair.blank:
                yield alignment
                continue
            for partner, links in zip(names[1:], scores, strict=True):
                check_range(links, alignment.pair, partner, number)
            yield replace(alignment, scores=mean_links([alignment.scores, *scores], threshold, weights))


def describe(names: Sequence[str]) -> list[str]:
    """Return a name of each partner for signatures: that of a tool with its version, or "links" for a file."""
    from align.baselines.tools import describe_tool

    return [describe_tool(name) if name in STATISTICAL else "links" for name in names]
