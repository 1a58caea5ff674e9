"""`analyse-attention ablate`: what a translation model loses without its heads."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from align.analysis.commands.asked import load_aligner
from align.analysis.commands.common import PROGRAM, Common, Texts, add_text_files, read_texts
from align.cli.common import say
from align.cli.evaluation_options import add_link_options, add_range_option, link_options
from align.cli.input_options import check_files
from align.cli.options import seed_number, whole_number
from align.cli.parser import Idle, Parser
from align.cli.sweep import need
from align.cli.translate import MAX_BEAM
from align.core.errors import Argument, DataError, Remedy
from align.core.settings import Search
from align.core.types import PARTS, Gold, Pair
from align.evaluation.gold import LinkOptions, read_as
from align.evaluation.metrics import SAMPLES, SEED
from align.io.reader import Input, name_shown, open_text
from align.io.signature import Parts
from align.view.findings import Finding

SUMMARY = "Which heads does a model need to translate, and which to align? Each masked, and pruned one after the other"

EXAMPLES = """examples:
  analyse-attention ablate -s test.de -t test.en -g gold.talp     loss, BLEU and AER without each head
  analyse-attention ablate -s test.de -t test.en --bleu-lines 0 --parts cross
"""

BLEU_LINES = 100
"""Sentences that are translated without each head: enough for large effects, and some seconds a head."""

REPORT_EVERY = 30.0
"""Seconds between two lines about progress."""

IDLE = (
    Idle(("gold_format", "gold_base", "gold_swapped", "out_of_range"), lambda args: not args.gold, "goes with -g"),
    Idle(("beam",), lambda args: not args.bleu_lines, "has no effect without sentences to translate"),
    Idle(("seed",), lambda args: not args.samples, "has no effect without samples"),
)
"""What does nothing beside certain others."""


@dataclass(frozen=True)
class Options:
    """What the command line asks for.

    Attributes:
        texts: what to read.
        gold: the file of gold links, if there is one.
        gold_options: what it may leave open.
        lines: how many sentences to translate.
        search: how.
        samples: of the bootstraps.
        seed: of those of loss and AER.
    """

    texts: Texts
    gold: str | None
    gold_options: LinkOptions
    lines: int
    search: Search
    samples: int
    seed: int


def add_options(parser: Parser) -> None:
    """What this command takes beside what all take."""
    add_text_files(parser, "their translations, whose loss is measured", one_side=False)
    group = parser.add_argument_group("gold (without it there is no AER)")
    add_link_options(group, "gold")
    add_range_option(group)
    group = parser.add_argument_group("measuring")
    group.add_argument(
        "--bleu-lines", type=whole_number(0), default=BLEU_LINES, metavar="N", help="sentences to translate; 0: none"
    )
    group.add_argument(
        "--beam", type=whole_number(1, MAX_BEAM), default=Search().beam, metavar="N", help="width of the beam search"
    )
    group.add_argument(
        "--samples", type=whole_number(0), default=SAMPLES, metavar="N", help="of the bootstraps; 0: none"
    )
    group.add_argument("--seed", type=seed_number, default=SEED, metavar="N", help="of those of loss and AER")


def read_options(parser: Parser, args: argparse.Namespace) -> Options:
    """The command line, checked."""
    parser.refuse_idle(args, IDLE)
    texts = read_texts(parser, args)
    check_files(parser, (*texts.input.files, args.gold), None)
    gold_options = link_options(args, "gold")
    return Options(texts, args.gold, gold_options, args.bleu_lines, Search(args.beam), args.samples, args.seed)


def answer(common: Common, options: Options) -> tuple[Finding, Parts]:
    """What `align.analysis.ablation.question` finds in a text."""
    if options.lines:
        need("sacrebleu", "scores of translations")
    texts, pairs = options.texts, read_pairs(options.texts.input)
    gold: Sequence[Gold] | None = None
    kind = None
    if options.gold:
        read = read_as("gold", options.gold, options.gold_options, pairs, name_shown(options.gold))
        gold, kind = read.pairs[: texts.lines], read.kind
    pairs = pairs[: texts.lines]
    aligner = load_aligner(common)
    from align.analysis.ablation.question import Ablation, study
    from align.analysis.ablation.tables import effects_of, report

    translator = aligner.forward.recorder.translator(options.search, aligner.batch_tokens) if options.lines else None
    ablation = Ablation(aligner, pairs, gold, translator, options.lines, files_shown(texts.input))
    found = study(ablation, texts.parts or PARTS, Ticker(common.quiet))
    effects = effects_of(ablation, found, options.samples, options.seed)
    parts: Parts = {
        "model": aligner.forward.recorder.name,
        "text": names_of(texts.input),
        "n": len(pairs),
        "parts": "+".join(texts.parts) or None,
        "gold": kind,
        "bleu": f"{len(ablation.references)}-{options.search}" if translator else None,
        "ci": f"percentile-{options.samples}",
        "seed": options.seed,
    }
    return report(ablation, found, effects), parts


def read_pairs(text: Input) -> list[Pair]:
    """All pairs of a text.

    Raises:
        DataError: it has one side only.
    """
    if text.one_side:
        raise DataError("a loss needs a text's other side", remedy=Remedy("give {}", (Argument("target"),)))
    with open_text(text) as opened:
        return list(opened)


def names_of(text: Input) -> str:
    """The names of a text's files without folders, for the signature."""
    return "+".join(Path(name_shown(name)).name for name in text.files)


def files_shown(text: Input) -> str:
    """What errors call a text's files together."""
    return " and ".join(map(name_shown, text.files))


class Ticker:
    """Says now and then how far the measuring is.

    Args:
        quiet: whether to say nothing.
    """

    def __init__(self, quiet: bool) -> None:
        self._quiet, self._said = quiet, time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        """Count measurements."""
        if not self._quiet and time.monotonic() - self._said > REPORT_EVERY:
            self._said = time.monotonic()
            say(f"{PROGRAM}: {done:,} of {total:,} measurements")
