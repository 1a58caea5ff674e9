"""`extract-align train reader`: learns from given links to read one model's attention, or two models', as links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from align.cli.args import (
    add_input_options,
    add_model_options,
    add_quiet_option,
    add_speed_options,
    new_parser,
    options_of,
    read_input,
    whole_number,
)
from align.cli.common import DESCRIBING, StatusLine, open_output, run, say, show_warnings
from align.cli.loading import Models, load_models, requested_models
from align.cli.parser import Parser
from align.core.errors import ModelError, plural
from align.core.types import Pair, Settings, TextWarning
from align.evaluation.ensemble import check_range, read_scored
from align.io.checks import open_text
from align.io.reader import Input, in_step, name_shown, open_lines, read_lines
from align.models.folder import BUNDLED, READER

PROGRAM = "extract-align train reader"

EXAMPLES = """examples:
  extract-align -m de-en --reverse-model en-de --ensemble giza --threshold 0.02 --print-scores bitext -o links
  extract-align train reader -m de-en --reverse-model en-de --links links -o reader.safetensors bitext
  extract-align -m de-en --reader reader.safetensors new-text

The links are those of a better aligner, with scores if it has any, a line for each pair. 30,000 pairs are enough.
"""

EPOCHS = 8

STATUS_EVERY = 60.0
"""Seconds between two lines of progress where stderr is not a terminal."""


@dataclass(frozen=True)
class Options:
    """Options of `extract-align train reader`.

    Attributes:
        links: file of the links to learn from.
        output: file of the reader; None for READER next to the model.
    """

    input: Input
    models: Models
    links: str
    output: str | None
    epochs: int
    seed: int
    quiet: bool


def build_parser() -> Parser:
    """Build the parser."""
    parser = new_parser(
        PROGRAM,
        "Trains a small network that turns a model's attention into links, on links of a better aligner. The model "
        "stays as it is.",
        EXAMPLES,
    )
    add_quiet_option(parser)
    add_input_options(parser)
    group = parser.add_argument_group("training")
    group.add_argument(
        "--links",
        metavar="FILE",
        required=True,
        help="links to learn from, a line for each pair: 0-0:0.93 1-2:0.08, or 0-0 1-2",
    )
    group.add_argument("-o", "--output", metavar="FILE", help=f"the reader (default: {READER} next to the model)")
    group.add_argument("--epochs", type=whole_number(1), default=EPOCHS, metavar="N", help="passes over the text")
    group.add_argument("--seed", type=whole_number(0), default=1, metavar="N", help="of weights and order")
    add_model_options(parser)
    group = parser.add_argument_group("two directions")
    group.add_argument(
        "--reverse-model",
        metavar="MODEL",
        help="a model that translates back, with which the reader is to be used, too",
    )
    add_speed_options(parser, "lines read ahead")
    return parser


def read_options(parser: Parser, arguments: Sequence[str] | None) -> Options:
    """Parse and check the command line; invalid combinations of options exit with code 2."""
    args = parser.parse_command(arguments)
    text = read_input(parser, args, args.links)
    if args.output is None and not (args.model and Path(args.model).exists()):
        parser.error("-o is required unless -m names a folder or a file, next to which the reader is written")
    models = replace(requested_models(args, Settings()), open_position=True)
    return options_of(Options, args, input=text, models=models)


def read_labelled(options: Options) -> Iterator[tuple[Pair, Mapping[tuple[int, int], float]]]:
    """Yield each pair of the text with its links.

    Raises:
        DataError: text and links differ in length, or a line cannot be read.
    """
    name = name_shown(options.links)
    with open_text(options.input) as text, open_lines(options.links) as stream:
        links = read_scored(read_lines(stream, name), name)
        for number, (pair, scores) in enumerate(in_step([text, links], [text.name, name]), 1):
            check_range(scores, pair, name, number)
            yield pair, scores
        text.bad.warn()


def train_reader(options: Options) -> None:
    """Load the models, read the text and its links, train, and write the reader."""
    forward, *reverse = load_models(PROGRAM, options.models, options.quiet)
    from align.models.load import two_way
    from align.models.trained_reader import about_reader, reader_bytes
    from align.training.reader import read_examples, train_network

    recorder: Any = forward.forward.recorder
    root: Path = recorder.origin[0].root
    if options.output is None and root.parent == BUNDLED:
        raise ModelError("a bundled model; name another file for the reader with -o", file=str(root))
    for one in (forward, *reverse):
        if not one.forward.known_choice:
            message = f"{one.forward.recorder.name} stores no layer and head, at which a reader would be trained"
            raise ModelError(message, hint=f"store them with `{DESCRIBING} -s FILE -t FILE`")
    labelled = list(read_labelled(options))
    aligner = (two_way(forward, reverse[0]) if reverse else forward).fixed()
    with closing(StatusLine(PROGRAM, STATUS_EVERY)) as status:

        def show(text: str) -> None:
            if not options.quiet:
                status.show(text)

        show("reading attention")
        examples = list(read_examples(aligner, labelled))
        left_out = len(labelled) - len(examples)
        losses: list[float] = []

        def on_epoch(epoch: int, loss: float) -> None:
            losses.append(loss)
            show(f"epoch {epoch} of {options.epochs}: loss {loss:.3f} per target word")

        network = train_network(examples, options.epochs, options.seed, on_epoch)
    about = about_reader(aligner, pairs=len(examples), epochs=options.epochs, seed=options.seed)
    path = options.output or str(root / READER)
    with open_output(path) as out:
        out.write(reader_bytes(network, about))
    if not options.quiet:
        say(
            f"{PROGRAM}: {path}: {plural(len(examples), 'pair')}, {left_out:,} left out as blank or long; loss "
            f"{losses[0]:.3f} at first, {losses[-1]:.3f} at last"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `extract-align train reader`."""
    show_warnings(PROGRAM, TextWarning)
    options = read_options(build_parser(), arguments)
    return run(PROGRAM, lambda: train_reader(options))
