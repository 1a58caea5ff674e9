"""`extract-align`: bitext in, word alignments out, a line for a line."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO, get_args

import align
from align.cli.combine import align_statistically, combine
from align.cli.common import Progress, open_output, run, say, show_warnings, write_links
from align.cli.directions import add_direction_options, check_directions, directions, load_aligner, sign
from align.cli.inputs import add_input_options, check_inputs, input_names, open_pairs, open_sources
from align.cli.options import (
    BATCH_ADVICE,
    Help,
    add_model_options,
    add_null_option,
    add_speed_options,
    number_or,
    up_to,
)
from align.cli.record import Record, Stamp, stamp
from align.cli.resume import Part, finished, open_part
from align.cli.translate import (
    add_translate_options,
    check_translate,
    make_translating,
    write_translation,
)
from align.errors import PairError
from align.links.formats import FORMATS
from align.links.symmetrize import THRESHOLD
from align.memory import keep_freed_memory
from align.statistical.tools import TOOLS
from align.types import Choice, Pair, Positions, Score, TextWarning

if TYPE_CHECKING:
    from align.aligners.single import Aligner
    from align.aligners.two_way import TwoWayAligner

PROGRAM = "extract-align"

RUN = ("format", "scores", "buffer", "batch_tokens", "too_long")
"""Options that the output depends on, to the last digit of a score, beside the signature and the device."""

EXAMPLES = """examples:
  extract-align bitext.de-en > links                     lines `source ||| target` or `source TAB target`
  zcat big.tsv.gz | extract-align -o big.links           millions of lines, in a pipe
  extract-align big.tsv.gz -o big.links.gz --resume      the same command goes on after a stop
  extract-align -s test.de -t test.en -m wmt/model.pt -f jsonl    two files and a fairseq model of your own
  extract-align -m models/de-en --reverse-model models/en-de bitext.de-en    both directions, symmetrised
  extract-align --translate -s test.de                   translate, and align: `translation ||| links`
  extract-align --combine de-en.links en-de.links --symmetrize grow-diag-final-and
  extract-align -m eflomal bitext.de-en > links          a statistical aligner, to compare with
"""


def build_parser() -> argparse.ArgumentParser:
    """All options, in groups."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Word alignments of translated sentences, out of a translation model's attention.",
        epilog=EXAMPLES,
        formatter_class=Help,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {align.__version__}")
    parser.add_argument("--signature", action="store_true", help="print the signature of these settings and stop")
    parser.add_argument("-q", "--quiet", action="store_true", help="nothing on stderr but warnings and errors")
    add_input_options(parser)
    _output_options(parser)
    add_model_options(parser, f", or a statistical aligner: {', '.join(TOOLS)}")
    _method_options(parser)
    add_direction_options(parser)
    add_translate_options(parser)
    add_speed_options(parser, "lines read ahead and sorted by length; 1 answers every line at once")
    return parser


def _output_options(parser: argparse.ArgumentParser) -> None:
    """Where the links go, and in which form."""
    group = parser.add_argument_group("output (one line for each line of input, in the same order)")
    group.add_argument(
        "-o", "--output", metavar="FILE", help="written whole or not at all; .gz and .xz are packed (default: stdout)"
    )
    group.add_argument(
        "--resume",
        action="store_true",
        help="with -o FILE: go on where an interrupted run with --resume was stopped, by whatever it was, to the same "
        "bytes as without a stop. Until it is complete the output is FILE.part; remove that to begin anew. After that "
        "FILE.run.json says what was run: given again for the same settings and input there is nothing to do, and any "
        "other FILE that is there is refused",
    )
    group.add_argument(
        "-f",
        "--format",
        choices=tuple(FORMATS),
        default="pharaoh",
        help="pharaoh: 0-based source-target; talp: the same, all sure; jsonl: words, links, scores, NULL words; "
        "naacl: a line for each link, from 1; giza: three lines for each pair, as in A3.final",
    )
    group.add_argument(
        "--scores", action="store_true", help="links as 0-1:0.83: shares of the target word's row, or soft scores"
    )


def _method_options(parser: argparse.ArgumentParser) -> None:
    """How links are read off attention."""
    group = parser.add_argument_group("method (Kobayashi et al., EMNLP 2020)")
    group.add_argument(
        "--score",
        choices=get_args(Score),
        default="norm",
        help="attention weight, or norm of the attention-weighted vector",
    )
    group.add_argument(
        "--position",
        choices=get_args(Positions),
        default="input",
        help="align a target word by the decoder step that reads it (input), predicts it (output), or by both, "
        "which is more accurate and costs a layer more; --layer and --head are then those of the input position",
    )
    group.add_argument(
        "--layer",
        type=number_or("auto"),
        default="auto",
        help="decoder layer, from 1; auto: by lexical consistency on the first buffer of lines",
    )
    group.add_argument(
        "--head",
        type=number_or("auto", "all"),
        default="auto",
        help="attention head, from 1; all: together; auto: as for --layer",
    )
    add_null_option(group)
    group.add_argument(
        "--threshold",
        type=up_to(1),
        metavar="T",
        help="link all words whose soft score is above it, from 0 to 1, in place of each target word's best "
        f"(default: {THRESHOLD:g} with --symmetrize soft, else none)",
    )


def check(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Refuse combinations that make no sense, with exit code 2."""
    others = (args.train_source, args.train_target, *(args.combine or ()))
    check_inputs(parser, args, *others, one_side=args.translate)
    check_directions(parser, args)
    check_translate(parser, args)
    if args.resume and args.output in (None, "-"):
        parser.error("--resume goes with -o FILE")
    if args.resume and os.path.exists(args.output) and not os.path.isfile(args.output):
        parser.error(f"--resume needs an ordinary file, and {args.output} is none")


def extract(args: argparse.Namespace) -> None:
    """Align all of the input."""
    if args.combine:
        combine(PROGRAM, args)
        return
    if args.model in TOOLS:
        with open_pairs(input_names(args)) as (pairs, _):
            align_statistically(PROGRAM, pairs, args)
        return
    keep_freed_memory()
    if args.signature:
        with open_output(None) as out:
            out.write(sign(load_aligner(PROGRAM, args), args).encode() + b"\n")
        return
    named = [name for name in (args.input, args.source, args.target) if name]
    inputs = [stamp(name) for name in named or ["-"]]
    opened = (open_sources if args.translate else open_pairs)(input_names(args))
    if args.resume and (record := finished(args.output)):
        with opened as (pairs, name):
            compare(record, inputs, pairs, name, args)
        return
    with opened as (pairs, name), open_results(args, inputs) as (out, part):  # before the model, which takes long
        aligner = load_aligner(PROGRAM, args)
        if name == "stdin" and sys.stdin.isatty() and not args.quiet:
            lines = "source" if args.translate else "`source ||| target`"
            say(f"{PROGRAM}: reading {lines} lines from the keyboard; Ctrl-D ends")
        if part:
            aligner, pairs = go_on(part, aligner, pairs, name, args)
        progress = Progress(PROGRAM, args.quiet, part.saved.lines if part else 0)
        try:
            counts, choices = write_all(aligner, pairs, out, progress, args, part)
        except PairError as error:
            raise error.in_file(name) from None
        finally:
            progress.close()
    progress.write(
        f"{PROGRAM}: {progress.lines:,} lines, {counts['blank']:,} blank, {counts['too long']:,} too long, "
        f"{progress.rate:,.0f} lines/s"
    )
    progress.write(sign(aligner, args, choices))


@contextmanager
def open_results(args: argparse.Namespace, inputs: list[Stamp]) -> Iterator[tuple[BinaryIO, Part | None]]:
    """Where to write to, and with --resume what keeps it for the next run."""
    if args.resume:
        with open_part(args.output, inputs) as part:
            yield part.out, part
    else:
        with open_output(args.output) as out:
            yield out, None


def compare(record: Record, inputs: list[Stamp], pairs: Iterator[Pair], name: str, args: argparse.Namespace) -> None:
    """Say that there is nothing to do, if the result is of these settings and this input."""
    record.check_run(args.output, what_is_run(load_aligner(PROGRAM, args), args))
    record.check_input(args.output, inputs, pairs, name)
    if not args.quiet:
        say(f"{PROGRAM}: {args.output} is there already: nothing to do")


def what_is_run(aligner: Aligner | TwoWayAligner, args: argparse.Namespace) -> dict[str, Any]:
    """What the output depends on beside the input."""
    options = {option.replace("_", "-"): getattr(args, option) for option in RUN}
    device = next(iter(directions(aligner).values())).recorder.device
    return {"settings": sign(aligner, args), "device": device, **options}


def go_on(
    part: Part, aligner: Aligner | TwoWayAligner, pairs: Iterator[Pair], name: str, args: argparse.Namespace
) -> tuple[Aligner | TwoWayAligner, Iterator[Pair]]:
    """An aligner that reads where an interrupted run has read, and the pairs that this has left to do."""
    rest = part.begin(what_is_run(aligner, args), pairs, name)
    if not part.saved.lines:
        return aligner, rest
    try:
        aligner = _reading_at(aligner, part.saved.chosen)
    except ValueError as error:
        raise ValueError(f"{part.path}: {error}: {part.anew}") from None
    if not args.quiet:
        say(f"{PROGRAM}: {part.saved.lines:,} lines are done in {part.path}")
    return aligner, rest


def _reading_at(aligner: Aligner | TwoWayAligner, choices: Sequence[Choice]) -> Aligner | TwoWayAligner:
    """The same aligner, but for where it reads, if that was chosen already."""
    from align.aligners.two_way import TwoWayAligner

    if not choices:
        return aligner
    if len(choices) != len(directions(aligner)):
        raise ValueError(f"{len(choices)} choices of layer and head for {len(directions(aligner))} models")
    if isinstance(aligner, TwoWayAligner):
        forward, reverse = replace(aligner.forward, choice=choices[0]), replace(aligner.reverse, choice=choices[1])
        return replace(aligner, forward=forward, reverse=reverse)
    return replace(aligner, choice=choices[0])


def write_all(
    aligner: Aligner | TwoWayAligner,
    pairs: Iterator[Pair],
    out: BinaryIO,
    progress: Progress,
    args: argparse.Namespace,
    part: Part | None,
) -> tuple[Counter[str], Sequence[Choice]]:
    """Write a line for each pair as its buffer is done; counts what got none for a reason, and says where it read."""
    counts = Counter(part.saved.counts if part else {})
    choices: list[Choice] = []

    def tell(chosen: Sequence[Choice]) -> None:
        choices.extend(chosen)
        for name, choice in zip(directions(aligner), chosen, strict=True):
            progress.write(f"{PROGRAM}: {name}{choice.place} ({choice.reason})")

    write = write_translation if args.translate else write_links
    align_all = make_translating(aligner, args) if args.translate else aligner
    for alignment in align_all(pairs, tell):
        write(out, alignment, args.format, args.scores)
        counts["blank"] += alignment.pair.blank and not alignment.skipped
        counts["too long"] += alignment.skipped == "too long"
        progress.add()
        if progress.lines % args.buffer == 0:
            out.flush()
            if part:
                part.save(progress.lines, counts, choices)
    return counts, choices


def main() -> int:
    """Entry point of `extract-align`."""
    parser = build_parser()
    args = parser.parse_args()
    check(parser, args)
    show_warnings(PROGRAM, TextWarning)
    return run(PROGRAM, lambda: extract(args), BATCH_ADVICE)


if __name__ == "__main__":
    sys.exit(main())
