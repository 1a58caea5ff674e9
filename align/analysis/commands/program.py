"""Command line of `extract-align analyse`: its commands and their options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from align.analysis.bert import program
from align.analysis.commands import answers
from align.analysis.commands.common import (
    PROGRAM,
    Common,
    FindingArgs,
    check_text,
    common_options,
    publish,
)
from align.cli.args import MAX_BEAM, ModelArgs, RunArgs
from align.cli.common import run
from align.cli.gold_args import GoldArgs
from align.cli.loading import LANGUAGES
from align.cli.options import add_group, new_parser, number_up_to, seed_number, whole_number
from align.cli.parser import Parser
from align.core.types import PARTS, Part, Search
from align.evaluation.metrics import SAMPLES, SEED

Argument = Callable[[Any], object]
"""Adds arguments to a parser or to a group of it."""

Arguments = tuple[Argument | type | str, ...]

FILES = "(UTF-8; .gz, .xz and .zst are unpacked; - is stdin)"

VECTORS = "embeddings for probes, a word and its numbers a line, as GloVe has them"
KEYPHRASES = 'JSON lines with "split" (train, dev or test), "sentences" (lists of words) and "keyphrases"'
THRESHOLD_HELP = "how far above chance attention to a pattern's cells has to be, from 0 to 1"
SAFE = "distance of predictions up to which attention has moved safely (default: the mean of the other seeds')"
ORDER = "which go first: those on whose gates the loss depends least, or those without which it rises least"
LAMBDAS = "how much it counts that attention moves, of an adversary each"
DIVERGENCE = "how far attention has moved: js has an upper end, kl (as published) has none"
OTHER_SEEDS = "of taggers to compare with"
MOVE = "what is to move: attention by weight, or by norm"


class Command(NamedTuple):
    """A command of `extract-align analyse`."""

    summary: str  # a sentence or a question for the help
    examples: str  # command lines for the help
    # its options; a string starts a group with this title, a class is a group of shared options
    arguments: Arguments
    # computes tables, figures and parts of the signature
    answer: Callable[[Common, argparse.Namespace], answers.Answer]
    # rejects invalid combinations of options
    check: Callable[[Parser, argparse.Namespace], None] = lambda parser, args: None
    files: tuple[str, ...] = ()  # options that name files to read
    without: tuple[str, ...] = ()  # options of all commands that this one does not have
    changes: Mapping[str, Any] = {}  # settings of shared options that differ


def option(*names: str, **settings: Any) -> Argument:
    """Describe an option or a positional argument."""
    return lambda group: group.add_argument(*names, **settings)


def number(name: str, least: int, default: int | None, help: str, limit: int | None = None) -> Argument:
    """Describe an option of a whole number."""
    return option(name, type=whole_number(least, limit), default=default, metavar="N", help=help)


def seed(help: str, default: int = 1) -> Argument:
    """Describe the seed."""
    return option("--seed", type=seed_number, default=default, metavar="N", help=help)


def file(name: str, help: str, *names: str, required: bool = False) -> Argument:
    """Describe an argument that names a file."""
    settings = {"required": True} if required else {}
    return option(name, *names, metavar="FILE", help=help, **settings)


def parts(default: str) -> Argument:
    """Describe the parts of the model whose attention is read."""
    help = f"of the model: {', '.join(PARTS)} (default: {default})"
    return option("--attention", dest="parts", type=part_names, default=(), metavar="PART,PART", help=help)


def text(target: str) -> Arguments:
    """Describe the text that is read; `target` is the help of -t."""
    return (
        f"text {FILES}",
        option("input", nargs="*", metavar="FILE", help="lines `source ||| target` or `source TAB target`"),
        file("-s", "sentences, one a line", "--source"),
        file("-t", target, "--target"),
        number("--lines", 1, None, "read the first N lines only"),
    )


def part_names(names: str) -> tuple[Part, ...]:
    """Parse one or more parts of a model, with commas between."""
    words = names.split(",")
    if unknown := [name for name in words if name not in PARTS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not one of {', '.join(PARTS)}")
    return tuple(part for part in PARTS if part in words)


def adversaries(lambdas: str) -> Arguments:
    """Describe what adversaries are trained with."""
    return (
        option("--lambdas", type=lambda_list, default=lambdas, metavar="L,L", help=LAMBDAS),
        option("--divergence", choices=("js", "kl"), default="js", help=DIVERGENCE),
    )


def lambda_list(text: str) -> tuple[float, ...]:
    """Parse one or more numbers from 0, with commas between; lowest first, each once."""
    return tuple(sorted({number or 0.0 for number in map(number_up_to(1000), text.split(","))}))


def seed_list(text: str) -> tuple[int, ...]:
    """Parse one or more seeds, with commas between; each once."""
    return tuple(dict.fromkeys(map(seed_number, text.split(","))))


def learning_rate(text: str) -> float:
    """Parse a number above 0, and at most 1."""
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0, and at most 1")
    return rate


def check_layers(parser: Parser, args: argparse.Namespace) -> None:
    """Check the options of `layers`."""
    if (args.train is None) != (args.test is None):
        parser.error("--train and --test go together")
    if args.treebank is None and args.train is None:
        parser.error("give --treebank, or --train and --test, or all of them")
    if args.examples == "-":
        parser.error("--examples needs the name of a file: stdout gets the tables")


def check_seeds(parser: Parser, args: argparse.Namespace) -> None:
    """Check the options of `adversary`."""
    if args.seed in args.seeds:
        parser.error("--other-seeds takes others than --seed")


READ_BY_DECODER = (
    *text("their translations, which the decoder reads"),
    parts("all that it has; without -t the encoder"),
)

COMMANDS: dict[str, Command] = {
    "mixing": Command(
        "Which kinds of pieces get attention, and how much of it arrives? Norms against weights",
        """
  extract-align analyse mixing text   lines `source ||| target`: encoder, decoder, cross-attention
  extract-align analyse mixing -s text.de   the encoder alone, which needs no translation
""",
        (seed("of points drawn for correlations"), *READ_BY_DECODER),
        answers.mixing,
        check_text,
    ),
    "patterns": Command(
        "What do maps of attention look like: stripes, diagonals, blocks?",
        """
  extract-align analyse patterns text --plots figures/patterns   shares, and the most typical maps
  extract-align analyse patterns -s text.de --threshold 0.4   a rule that asks for less; the encoder alone
""",
        (
            option("--threshold", type=number_up_to(1), metavar="N", default=0.5, help=THRESHOLD_HELP),
            seed("of the bootstrap"),
            *READ_BY_DECODER,
        ),
        answers.patterns,
        check_text,
    ),
    "syntax": Command(
        "Does the encoder's attention know of syntax? Heads and probes on a treebank",
        """
  extract-align analyse syntax de.conllu   single heads, and probes of all heads
  extract-align analyse syntax en.conllu -m en-de --no-probes   single heads only, which is quick
""",
        (
            f"text {FILES}",
            option("input", metavar="TREEBANK", help="sentences with their trees, in CoNLL-U"),
            number("--sentences", 1, None, "read the first N sentences only"),
            "measures",
            number("--fewest", 1, 20, "words of a relation that gets a row"),
            option("--no-probes", action="store_true", help="train none, which takes most of the time"),
            file("--vectors", f"{VECTORS} (default: the model's own)"),
            seed("of halves, folds and draws"),
        ),
        answers.syntax,
        files=("input", "vectors"),
    ),
    "coreference": Command(
        "Does a head of the encoder know whom a pronoun means? Heads on paragraphs of GAP",
        """
  extract-align analyse coreference gap-test.tsv -m en-de
""",
        (
            seed("of halves and draws"),
            f"text {FILES}",
            file("input", "paragraphs with a pronoun and two names, as GAP's .tsv files"),
            number("--paragraphs", 1, None, "read the first N paragraphs only"),
        ),
        answers.coreference,
        files=("input",),
    ),
    "similarity": Command(
        "Which heads attend alike? Divergences of all pairs of heads, and a map of heads",
        """
  extract-align analyse similarity text --plots figures/similarity
  extract-align analyse similarity -s text.de --lines 200   the encoder alone
""",
        (seed("of the map of heads"), *READ_BY_DECODER),
        answers.similarity,
        check_text,
    ),
    "keywords": Command(
        "Which heads look at key words, and how well do they find them? With fine-tuning and ablation",
        """
  extract-align analyse keywords -m en-de --keyphrases inspec.jsonl   an encoder's heads, and fine-tuning
  extract-align analyse keywords -m en-de --keyphrases inspec.jsonl --epochs 0   without fine-tuning
""",
        (
            f"text {FILES}",
            file("--keyphrases", KEYPHRASES, required=True),
            number("--documents", 1, None, "the first N of train, of dev and of test only"),
            "fine-tuning",
            number("--epochs", 0, 3, "0: none"),
            option("--rate", type=learning_rate, default=3e-4, metavar="X", help="of learning, the highest"),
            number("--random-orders", 0, 5, "random orders in which heads are masked"),
            "statistics",
            number("--samples", 0, 1000, "of the bootstrap over documents; 0: none"),
            seed("of samples, fine-tuning and random orders"),
        ),
        answers.keywords,
        files=("keyphrases",),
    ),
    "layers": Command(
        "What does each layer add to what is known of words? Probes of layers 0 to l, for each l",
        """
  extract-align analyse layers -m en-de --treebank en.conllu
  extract-align analyse layers -m bert --train train.txt --test test.txt --examples examples.jsonl
""",
        (
            f"data {FILES}",
            file("--treebank", "CoNLL-U, for parts of speech and dependencies"),
            file("--train", "CoNLL-2000, to train probes of chunks on"),
            file("--test", "requires --train: to score them"),
            number("--lines", 1, None, "read the first N sentences of each file only"),
            "probes",
            number("--hidden", 0, 256, "units of the hidden layer, 0 for a linear probe"),
            number("--epochs", 1, 10, "passes over the training examples"),
            number("--folds", 2, 5, "cross-validation folds of the treebank"),
            seed("of the random numbers"),
            file("--examples", "write what they say of each example, layer by layer: JSON lines"),
        ),
        answers.layers,
        check_layers,
        files=("treebank", "train", "test"),
    ),
    "ablate": Command(
        "Which heads does a model need to translate, and which to align? Each masked, and pruned one after the other",
        """
  extract-align analyse ablate -s test.de -t test.en -g gold.talp   loss, BLEU and AER without each head
  extract-align analyse ablate -s test.de -t test.en --bleu-lines 0 --attention cross
""",
        (
            *text("their translations, whose loss is measured"),
            parts("all"),
            GoldArgs,
            "measuring",
            number("--bleu-lines", 0, 100, "sentences to translate; 0: none"),
            number("--beam", 1, Search().beam, "width of the beam search", MAX_BEAM),
            number("--samples", 0, SAMPLES, "of the bootstraps; 0: none"),
            seed("of those of loss and AER", SEED),
        ),
        answers.ablate,
        check_text,
        files=("gold",),
    ),
    "prune": Command(
        "A fairseq model without the heads that it needs least to translate: smaller, faster, for this package only",
        """
  extract-align analyse prune -s valid.de -t valid.en --heads 9 -o smaller   which extract-align -m smaller reads
""",
        (
            *text("their translations, whose loss decides"),
            "pruning",
            option("--heads", type=whole_number(1), required=True, metavar="N", help="how many heads are to go"),
            option("--rank-by", dest="order", choices=("importance", "effect"), default="importance", help=ORDER),
            option("-o", "--output", type=Path, required=True, metavar="FOLDER", help="a new folder for the model"),
        ),
        answers.prune,
        check_text,
        without=("plots",),
    ),
    "adversary": Command(
        "Is attention exclusive? Taggers of chunks that say the same and attend elsewhere",
        """
  extract-align analyse adversary --train train.txt --test test.txt   files as CoNLL-2000 has them
  extract-align analyse adversary --train train.txt --test test.txt --divergence kl --lambdas 0.2,1,3
""",
        (
            "text (word, part of speech and B-NP, I-NP or O on a line; blank between sentences)",
            file("--train", "what taggers learn from", required=True),
            file("--test", "what they are measured on", required=True),
            "taggers",
            *adversaries("0.02,0.05,0.2,1,3"),
            number("--epochs", 1, 6, "passes over what they learn from"),
            seed("of the original; adversaries: the next"),
            option("--other-seeds", dest="seeds", type=seed_list, default="2,3", metavar="N,N", help=OTHER_SEEDS),
            option("--threshold", type=number_up_to(1, "seeds"), metavar="TVD", help=SAFE),
        ),
        answers.adversary,
        check_seeds,
        files=("train", "test"),
        without=("model", "device", *LANGUAGES),
    ),
    "adversary-translation": Command(
        "How far can a translation model's cross-attention move, and how do its links change?",
        """
  extract-align analyse adversary-translation --tune-source valid.de --tune-target valid.en -s a.de -t a.en -g gold
""",
        (
            "text (UTF-8; .gz, .xz and .zst are unpacked)",
            *(file(f"--tune-{side}", "what adversaries learn from", required=True) for side in ("source", "target")),
            number("--pairs", 1, 1000, "lines of it to learn from"),
            number("--held-out", 1, 500, "lines behind these, to measure losses on"),
            file("-s", "what is linked", "--source", required=True),
            file("-t", "its other side", "--target", required=True),
            GoldArgs,
            "adversaries",
            *adversaries("0.3,1,3"),
            option("--move", choices=("weight", "norm"), default="weight", help=MOVE),
            number("--updates", 1, 200, "of each"),
            seed("of the order of batches"),
        ),
        answers.adversary_translation,
        files=("tune_source", "tune_target", "source", "target", "gold"),
        changes={"gold": {"required": True}},
    ),
}

COMMON = (
    (FindingArgs, ("format", "wide", "plots")),
    (ModelArgs, ("model", *LANGUAGES)),
    (RunArgs, ("device", "threads", "quiet")),
)
"""Groups of options of all commands, and which of them."""

EXAMPLES = """examples:
  extract-align analyse mixing -s text.de -t text.en   norms against weights, by kind of piece
  extract-align analyse mixing --help   what a command takes
"""


TRAINING = "train-bert"
"""The command that makes a model."""


def build_command(name: str) -> Parser:
    """Build the parser of a command."""
    if name == TRAINING:
        return program.build_parser()
    command = COMMANDS[name]
    summary = command.summary if command.summary.endswith("?") else f"{command.summary}."
    parser = new_parser(f"{PROGRAM} {name}", summary, f"examples:{command.examples}")
    group: Any = parser
    for argument in command.arguments:
        if isinstance(argument, str):
            group = parser.add_argument_group(argument)
        elif isinstance(argument, type):
            add_group(parser, argument, **command.changes)
        else:
            argument(group)
    for kind, names in COMMON:
        if only := [name for name in names if name not in command.without]:
            add_group(parser, kind, only=only)
    return parser


def build_parser() -> Parser:
    """Build the parser that lists the commands, and leaves what follows one to its own parser."""
    parser = new_parser(PROGRAM, "What does attention do inside a model?", EXAMPLES)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, title="commands")
    for name, entry in COMMANDS.items():
        command = build_command(name)
        commands.add_parser(name, parents=[command], add_help=False, help=entry.summary, prog=command.prog)
    training = build_command(TRAINING)
    commands.add_parser(
        TRAINING, parents=[training], add_help=False, help="A small BERT, to analyse", prog=training.prog
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `extract-align analyse`."""
    words = sys.argv[1:] if arguments is None else arguments
    name = next(iter(words), "")
    if name == TRAINING:
        return program.main(words[1:])
    if name not in COMMANDS:
        build_parser().parse_args(words)  # prints the help, or rejects the name
    parser, command = build_command(name), COMMANDS[name]
    args = parser.parse_command(words[1:])
    common = common_options(args)
    command.check(parser, args)
    return run(PROGRAM, lambda: publish(common, name, lambda: command.answer(common, args)))
