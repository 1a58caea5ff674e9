"""`extract-align train scorer`: learns from given links to read one model's attention, or two models', as links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from align.cli.args import MethodArgs, ModelArgs, RunArgs, TextArgs, read_input
from align.cli.common import DESCRIBING, Progress, open_output, run
from align.cli.loading import Request, load_models
from align.cli.options import add_group, new_parser, option, read_group, whole_number
from align.cli.parser import Parser
from align.core.errors import ModelError, plural
from align.core.types import Pair
from align.evaluation.link_formats import check_range, read_scored
from align.io.checks import open_text
from align.io.reader import Input, in_step, name_shown, open_lines, read_lines
from align.models.folder import BUNDLED, SCORER_FILE

PROGRAM = "extract-align train scorer"

EXAMPLES = """examples:
  extract-align -m de-en --reverse-model en-de --ensemble giza --threshold 0.02 --print-scores bitext -o links
  extract-align train scorer -m de-en --reverse-model en-de --links links -o scorer.safetensors bitext
  extract-align -m de-en --scorer scorer.safetensors new-text

The links are those of a better aligner, with scores if it has any, a line for each pair. 30,000 pairs are enough.
"""

EPOCHS = 8
STATUS_EVERY = 60.0  # seconds between two lines of progress where stderr is not a terminal


@dataclass(frozen=True)
class TrainingArgs:
    """What to learn from, and the result."""

    TITLE: ClassVar = "training"

    links: str = option(
        metavar="FILE", required=True, help="links to learn from, a line for each pair: 0-0:0.93 1-2:0.08, or 0-0 1-2"
    )
    output: str | None = option(
        "-o", writes=True, metavar="FILE", help=f"the scorer (default: {SCORER_FILE} next to the model)"
    )
    seed: int = option(default=1, type=whole_number(0), metavar="N", help="random seed of weights and order")


def build_parser() -> Parser:
    """Build the parser."""
    description = (
        "Train a small network that turns a model's attention into links, on links of a better aligner. The model "
        "stays as it is."
    )
    parser = new_parser(PROGRAM, description, EXAMPLES)
    reverse = {"help": "a model that translates back, with which the scorer is to be used, too"}
    add_group(parser, TextArgs, without=("columns", "bad_lines"))
    add_group(parser, TrainingArgs)
    add_group(parser, ModelArgs, without=("template", "adapter"), reverse_model=reverse)
    add_group(parser, RunArgs, only=("device", "threads", "quiet"))
    return parser


def read_labelled(source: Input, links_file: str) -> Iterator[tuple[Pair, Mapping[tuple[int, int], float]]]:
    """Yield each pair of the text with its links."""
    name = name_shown(links_file)
    with open_text(source) as text, open_lines(links_file) as stream:
        links = read_scored(read_lines(stream, name), name)
        for number, (pair, scores) in enumerate(in_step([text, links], [text.name, name]), 1):
            check_range(scores, pair, name, number)
            yield pair, scores
        text.bad.warn()


def train_scorer(text: Input, args: TrainingArgs, request: Request) -> None:
    """Load the models, read the text and its links, train, and write the scorer."""
    forward, *reverse = load_models(PROGRAM, request)
    from align.models.link_scorer import about_scorer, scorer_bytes
    from align.models.load import two_way
    from align.training.scorer import read_examples, train_network, with_runs

    recorder: Any = forward.forward.recorder
    root: Path = recorder.origin[0].own_root
    if args.output is None and root.parent == BUNDLED:
        raise ModelError("a bundled model; name another file for the scorer with -o", file=str(root))
    for one in (forward, *reverse):
        if not one.forward.known_choice:
            message = f"{one.forward.recorder.name} stores no layer and head to train a scorer at"
            raise ModelError(message, hint=f"store them with `{DESCRIBING} -s FILE -t FILE`")
    labelled = list(read_labelled(text, args.links))
    aligner = (two_way(forward, reverse[0]) if reverse else forward).fixed()
    with closing(Progress(PROGRAM, request.run.quiet, every=STATUS_EVERY)) as progress:
        progress.show("reading attention")
        examples = list(read_examples(aligner, with_runs(labelled, Random(args.seed))))
        left_out = len(labelled) - len(examples)
        losses: list[float] = []

        def on_epoch(epoch: int, loss: float) -> None:
            losses.append(loss)
            progress.show(f"epoch {epoch} of {EPOCHS}: loss {loss:.3f} per target word")

        network = train_network(examples, EPOCHS, args.seed, on_epoch)
    about = about_scorer(aligner, pairs=len(examples), epochs=EPOCHS, seed=args.seed)
    path = args.output or str(root / SCORER_FILE)
    with open_output(path) as out:
        out.write(scorer_bytes(network, about))
    progress.write(
        f"{PROGRAM}: {path}: {plural(len(examples), 'pair')}, {left_out:,} left out as blank or long; loss "
        f"{losses[0]:.3f} at first, {losses[-1]:.3f} at last"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `extract-align train scorer`."""
    parser = build_parser()
    args = parser.parse_command(arguments)
    text = replace(read_input(parser, read_group(TextArgs, args)), blank=None)
    if args.output is None and not (args.model and Path(args.model).exists()):
        parser.error("-o is required unless -m names a folder or a file, next to which the scorer is written")
    request = Request(read_group(ModelArgs, args), MethodArgs(scorer="none"), read_group(RunArgs, args))
    training = read_group(TrainingArgs, args)
    return run(PROGRAM, lambda: train_scorer(text, training, request))
