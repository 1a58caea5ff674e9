"""`analyse-attention layers`: probes of layers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from align.analysis.commands.asked import load_inspected
from align.analysis.commands.common import PROGRAM, Common
from align.cli.common import open_output, say
from align.cli.input_options import check_files
from align.cli.options import seed_number, whole_number
from align.cli.parser import Idle, Parser
from align.core.formats import to_json
from align.io.reader import name_shown
from align.io.signature import Parts
from align.view.findings import Finding

if TYPE_CHECKING:
    from align.analysis.layers.probes import Task, Told
    from align.analysis.maps import Layered

SUMMARY = "What does each layer add to what is known of words? Probes of layers 0 to l, for each l"

EXAMPLES = """examples:
  analyse-attention layers -m en-de --treebank en.conllu
  analyse-attention layers -m bert --train train.txt --test test.txt --examples examples.jsonl
"""


IDLE = Idle(("parts",), lambda args: args.treebank is None, "has no effect without --treebank")


@dataclass(frozen=True)
class Options:
    """What the command line asks for.

    Attributes:
        treebank: a CoNLL-U file, for parts of speech and dependencies; None for none.
        chunks: CoNLL-2000 files, to train on and to score; None for none.
        lines: sentences of each file to read; None for all.
        parts: of the cross-validation.
        hidden: units of a probe's hidden layer; 0 for a linear one.
        epochs: times that probes go through their examples.
        seed: of all that is random.
        examples: gets what the probes say of each example; None for nothing.
    """

    treebank: str | None
    chunks: tuple[str, str] | None
    lines: int | None
    parts: int
    hidden: int
    epochs: int
    seed: int
    examples: str | None


def add_options(parser: Parser) -> None:
    """What this command takes beside what all take."""
    group = parser.add_argument_group("data (UTF-8; .gz and .xz are unpacked; - is stdin)")
    group.add_argument("--treebank", metavar="FILE", help="CoNLL-U, for parts of speech and dependencies")
    group.add_argument("--train", metavar="FILE", help="CoNLL-2000, to train probes of chunks on")
    group.add_argument("--test", metavar="FILE", help="goes with --train: to score them")
    group.add_argument(
        "--lines", type=whole_number(1), metavar="N", help="read the first N sentences of each file only"
    )
    group = parser.add_argument_group("probes")
    group.add_argument(
        "--hidden",
        type=whole_number(0),
        default=256,
        metavar="N",
        help="units of the hidden layer, 0 for a linear probe (default: %(default)s)",
    )
    group.add_argument(
        "--epochs",
        type=whole_number(1),
        default=10,
        metavar="N",
        help="times that they go through their examples (default: %(default)s)",
    )
    group.add_argument(
        "--parts",
        type=whole_number(2),
        default=5,
        metavar="N",
        help="of the treebank: each is told by probes trained on the others (default: %(default)s)",
    )
    group.add_argument(
        "--seed", type=seed_number, default=1, metavar="N", help="of all that is random (default: %(default)s)"
    )
    group.add_argument(
        "--examples", metavar="FILE", help="write what they say of each example, layer by layer: JSON lines"
    )


def read_options(parser: Parser, args: argparse.Namespace) -> Options:
    """The command line, checked."""
    if (args.train is None) != (args.test is None):
        parser.error("--train and --test go together")
    if args.treebank is None and args.train is None:
        parser.error("give --treebank, or --train and --test, or all of them")
    parser.refuse_idle(args, (IDLE,))
    files = (args.treebank, args.train, args.test)
    check_files(parser, files, None)
    if args.examples is not None:
        if args.examples == "-":
            parser.error("--examples needs the name of a file: stdout gets the tables")
        check_files(parser, files, args.examples, "--examples")
    chunks = (args.train, args.test) if args.train else None
    named = {name: getattr(args, name) for name in ("lines", "parts", "hidden", "epochs", "seed", "examples")}
    return Options(args.treebank, chunks, **named)


def answer(common: Common, options: Options) -> tuple[Finding, Parts]:
    """What `align.analysis.layers.question` finds."""
    model = load_inspected(common)
    from align.analysis.layers.probes import Settings
    from align.analysis.layers.question import layers

    def progress(done: str) -> None:
        if not common.quiet:
            say(f"{PROGRAM}: {done}")

    tasks, texts = _tasks(model, options)
    settings = Settings(options.hidden, options.epochs, options.seed)
    finding, told = layers(tasks, settings, progress)
    if options.examples:
        _write_examples(options.examples, told, texts)
    files = [Path(name).name for name in (options.treebank, *(options.chunks or ())) if name]
    return finding, {
        "model": model.name,
        "data": "+".join(files),
        "n": sum(len(text) for text in {id(text): text for text in texts}.values()),
        "parts": options.parts if options.treebank else None,
        "hidden": options.hidden,
        "epochs": options.epochs,
        "seed": options.seed,
    }


def _write_examples(file: str, told: Sequence[Told], texts: Sequence[Sequence[Sequence[str]]]) -> None:
    from align.analysis.layers.question import examples

    with open_output(file) as out:
        for one, text in zip(told, texts, strict=True):
            for example in examples(one, text):
                out.write(to_json(example).encode() + b"\n")


def _tasks(model: Layered, options: Options) -> tuple[list[Task], list[Sequence[Sequence[str]]]]:
    """The tasks, and the sentences that each is of."""
    from align.analysis.data.chunks import read_sentences
    from align.analysis.data.treebank import read_treebank
    from align.analysis.layers.tasks import chunk_task, treebank_tasks

    tasks: list[Task] = []
    texts: list[Sequence[Sequence[str]]] = []
    if options.treebank:
        trees = read_treebank(options.treebank, options.lines)
        tasks += treebank_tasks(model, trees, options.parts, options.seed, name_shown(options.treebank))
        texts += [[tree.words for tree in trees]] * len(tasks)
    if options.chunks:
        train, test = (read_sentences(name)[: options.lines] for name in options.chunks)
        tasks.append(chunk_task(model, train, test, (name_shown(options.chunks[0]), name_shown(options.chunks[1]))))
        texts.append([sentence.words for sentence in (*train, *test)])
    return tasks, texts
