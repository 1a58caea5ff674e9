"""Questions of `extract-align analyse`: the options of each command, and the parts of its signature."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import ClassVar, Literal

from align.analysis.commands.common import (
    PROGRAM,
    AttentionQuestion,
    FindingArgs,
    Question,
    TextQuestion,
    attention,
    file,
    number,
    seed,
    separated,
)
from align.cli.args import MAX_BEAM
from align.cli.gold_args import GoldArgs
from align.cli.loading import LANGUAGES, Request
from align.cli.options import argument, number_up_to, option, seed_number, whole_number
from align.cli.parser import Parser
from align.core.types import Part, Search
from align.evaluation.metrics import SAMPLES, SEED

VECTORS = "embeddings for probes, a word and its numbers a line, as GloVe has them (default: the model's own)"
KEYPHRASES = 'JSON lines with "split" (train, dev or test), "sentences" (lists of words) and "keyphrases"'
THRESHOLD_HELP = "how far above chance attention to a pattern's cells has to be, from 0 to 1"
SAFE = "distance of predictions up to which attention has moved safely (default: the mean of the other seeds')"
ORDER = "which heads to prune first: those on whose gates the loss depends least, or those without which it rises least"
LAMBDAS = "weights of the divergence term; one adversary is trained for each"
DIVERGENCE = "how far attention has moved: js has an upper end, kl (as published) has none"
MOVE = "what is to move: attention by weight, or by norm"
TEXT = "UTF-8, a sentence or a paragraph a line, in any order; .gz, .xz and .zst are unpacked"

weight_list = separated(number_up_to(1000))


# Attention to a text.


@dataclass(frozen=True)
class Mixing(AttentionQuestion):
    """Compare norms with weights: which kinds of pieces get attention, and how much of it arrives.

    extract-align analyse mixing text   lines `source ||| target`: encoder, decoder, cross-attention
    extract-align analyse mixing -s text.de   the encoder alone, which needs no translation
    """

    MODULE = "mixing"
    SIGNED = "model n seed"
    seed: int = seed("of points drawn for correlations")


@dataclass(frozen=True)
class Patterns(AttentionQuestion):
    """Classify maps of attention: stripes, diagonals, blocks.

    extract-align analyse patterns text --plots figures/patterns   shares, and the most typical maps
    extract-align analyse patterns -s text.de --threshold 0.4   a rule that asks for less; the encoder alone
    """

    MODULE = "patterns"
    SIGNED = "model n threshold seed"
    threshold: float = option(type=number_up_to(1), metavar="N", default=0.5, help=THRESHOLD_HELP)
    seed: int = seed("of the bootstrap")


@dataclass(frozen=True)
class Similarity(AttentionQuestion):
    """Compare all pairs of heads by their divergence, and draw a map of heads.

    extract-align analyse similarity text --plots figures/similarity
    extract-align analyse similarity -s text.de --lines 200   the encoder alone
    """

    MODULE = "similarity"
    SIGNED = "model n seed"
    seed: int = seed("of the map of heads")


# Probes and annotated text.


@dataclass(frozen=True)
class Syntax(Question):
    """Measure what the encoder's attention knows of syntax: heads and probes on a treebank.

    extract-align analyse syntax de.conllu   single heads, and probes of all heads
    extract-align analyse syntax en.conllu -m en-de --no-probes   single heads only, which is quick
    """

    MODULE = "syntax"
    SIGNED = "model treebank n fewest seed vectors probes"
    input: str = argument(reads=True, metavar="TREEBANK", help="sentences with their trees, in CoNLL-U")
    sentences: int | None = number(1, None, "read the first N sentences only")
    fewest: int = number(1, 20, "show relations with N words or more")
    no_probes: bool = option(default=False, help="do not train probes, which take most of the time")
    vectors: str | None = file(help=VECTORS)
    seed: int = seed("of halves, folds and draws")


@dataclass(frozen=True)
class Coreference(Question):
    """Find heads of the encoder that know whom a pronoun means, on paragraphs of GAP.

    extract-align analyse coreference gap-test.tsv -m en-de
    """

    MODULE = "coreference"
    SIGNED = "model gap n seed"
    input: str = argument(metavar="FILE", help="paragraphs with a pronoun and two names, as GAP's .tsv files")
    paragraphs: int | None = number(1, None, "read the first N paragraphs only")
    seed: int = seed("of halves and draws")


@dataclass(frozen=True)
class Keywords(Question):
    """Find heads that look at key words, with fine-tuning and ablation.

    extract-align analyse keywords -m en-de --keyphrases inspec.jsonl   an encoder's heads, and fine-tuning
    extract-align analyse keywords -m en-de --keyphrases inspec.jsonl --epochs 0   without fine-tuning
    """

    MODULE = "keywords"
    SIGNED = "model data train dev test epochs rate orders samples seed"
    keyphrases: str = file(help=KEYPHRASES, required=True)
    documents: int | None = number(1, None, "read the first N documents of train, dev and test only")
    epochs: int = number(0, 3, "epochs of fine-tuning; 0: none")
    rate: float = option(type=number_up_to(1), default=3e-4, metavar="X", help="highest learning rate")
    random_orders: int = number(0, 5, "random orders in which heads are masked")
    samples: int = number(0, 1000, "bootstrap samples of documents; 0: none")
    seed: int = seed("of samples, fine-tuning and random orders")


@dataclass(frozen=True)
class Layers(Question):
    """Measure what each layer adds to what is known of words: probes of layers 0 to l, for each l.

    extract-align analyse layers -m en-de --treebank en.conllu
    extract-align analyse layers -m bert --train train.txt --test test.txt --examples examples.jsonl
    """

    MODULE = "layers"
    SIGNED = "model data n parts hidden epochs seed"
    treebank: str | None = file(help="CoNLL-U, for parts of speech and dependencies")
    train: str | None = file(help="CoNLL-2000, to train probes of chunks on")
    test: str | None = file(help="CoNLL-2000, to score these probes on; requires --train")
    lines: int | None = number(1, None, "read the first N sentences of each file only")
    hidden: int = number(0, 256, "units of the hidden layer, 0 for a linear probe")
    epochs: int = number(1, 10, "passes over the training examples")
    folds: int = number(2, 5, "cross-validation folds of the treebank")
    seed: int = seed("of the random numbers")
    examples: str | None = option(
        writes=True, metavar="FILE", help="write their predictions for each example and layer, as JSON lines"
    )

    def check(self, parser: Parser) -> None:
        """See `Question`."""
        parser.require_both(self, "--train", "--test")
        if self.treebank is None and self.train is None:
            parser.error("give --treebank, or --train and --test, or all of them")


# Translation models without some heads.


@dataclass(frozen=True)
class Ablate(TextQuestion, GoldArgs):
    """Find the heads that a model needs to translate, and to align: mask each, prune one after the other.

    extract-align analyse ablate -s test.de -t test.en -g gold.talp   loss, BLEU and AER without each head
    extract-align analyse ablate -s test.de -t test.en --bleu-lines 0 --attention cross
    """

    MODULE = "ablation"
    ONE_SIDE = False
    SIGNED = "model text n parts gold bleu ci seed"
    parts: tuple[Part, ...] = attention("all")
    bleu_lines: int = number(0, 100, "sentences to translate; 0: none")
    beam: int = number(1, Search().beam, "width of the beam search", MAX_BEAM)
    samples: int = number(0, SAMPLES, "bootstrap samples; 0: none")
    seed: int = seed("of the bootstrap of loss and AER", SEED)


@dataclass(frozen=True)
class Prune(TextQuestion):
    """Write a fairseq model without the heads that it needs least: smaller, faster, for this package only.

    extract-align analyse prune -s valid.de -t valid.en --heads 9 -o smaller   which extract-align -m smaller reads
    """

    ONE_SIDE, WITHOUT = False, ("plots",)
    MODULE = "pruning"
    SIGNED = "model text n order pruned"
    heads: int = option(type=whole_number(1), required=True, metavar="N", help="number of heads to prune")
    order: Literal["importance", "effect"] = option("--rank-by", default="importance", help=ORDER)
    output: Path = option("-o", type=Path, required=True, metavar="FOLDER", help="a new folder for the model")


# Adversaries.


@dataclass(frozen=True)
class Adversary(Question):
    """Test whether attention is exclusive: train taggers of chunks with the same predictions and other attention.

    extract-align analyse adversary --train train.txt --test test.txt   files as CoNLL-2000 has them
    extract-align analyse adversary --train train.txt --test test.txt --divergence kl --lambdas 0.2,1,3
    """

    WITHOUT = ("model", "device", *LANGUAGES)
    MODULE = "adversary"
    SIGNED = "train test lambda divergence threshold epochs seed seeds"
    train: str = file(help="what taggers learn from, in CoNLL-2000's format", required=True)
    test: str = file(help="what they are measured on", required=True)
    lambdas: tuple[float, ...] = option(type=weight_list, default=(0.02, 0.05, 0.2, 1, 3), metavar="L,L", help=LAMBDAS)
    divergence: Literal["js", "kl"] = option(default="js", help=DIVERGENCE)
    epochs: int = number(1, 6, "passes over what they learn from")
    seed: int = seed("of the original tagger; adversaries take the next one")
    other_seeds: tuple[int, ...] = option(
        type=separated(seed_number), default=(2, 3), metavar="N,N", help="of taggers to compare with"
    )
    threshold: float | None = option(type=number_up_to(1, "seeds"), metavar="TVD", help=SAFE)

    def check(self, parser: Parser) -> None:
        """See `Question`."""
        if self.seed in self.other_seeds:
            parser.error("--other-seeds takes others than --seed")


@dataclass(frozen=True)
class AdversaryTranslation(Question, GoldArgs):
    """Measure how far a translation model's cross-attention can move, and how its links change.

    extract-align analyse adversary-translation --tune-source valid.de --tune-target valid.en -s a.de -t a.en -g gold
    """

    CHANGES: ClassVar = {"gold": {"required": True}}
    MODULE = "adversary_translation"
    SIGNED = "model tuned held-out text n gold lambda divergence move updates seed"
    tune_source: str = file(help="what adversaries learn from", required=True)
    tune_target: str = file(help="its other side", required=True)
    pairs: int = number(1, 1000, "lines of it to learn from")
    held_out: int = number(1, 500, "lines behind these, to measure losses on")
    source: str = file("-s", help="what is linked", required=True)
    target: str = file("-t", help="its other side", required=True)
    lambdas: tuple[float, ...] = option(type=weight_list, default=(0.3, 1, 3), metavar="L,L", help=LAMBDAS)
    divergence: Literal["js", "kl"] = option(default="js", help=DIVERGENCE)
    move: Literal["weight", "norm"] = option(default="weight", help=MOVE)
    updates: int = number(1, 200, "updates of each")
    seed: int = seed("of the order of batches")


# A model to analyse.


@dataclass(frozen=True)
class TrainBert(Question):
    """Train a small BERT to analyse, and save it as transformers does.

    extract-align analyse train-bert my-bert text.en
    extract-align analyse train-bert my-bert news.en.gz wiki.en --layers 6 --updates 20000
    extract-align analyse mixing -m my-bert -s text.en
    """

    WITHOUT = ("format", "wide", "plots", "model", *LANGUAGES, "quiet")
    folder: Path = argument(metavar="FOLDER", type=Path, help="gets the model; the same command resumes a stopped run")
    text: Sequence[Path] = argument(reads=True, metavar="TEXT", type=Path, nargs="+", help=TEXT)
    layers: int = number(1, 4, "layers")
    heads: int = number(1, 8, "attention heads of each")
    width: int = number(1, 256, "width of the model; the feed-forward network is four times as wide")
    pieces: int = number(100, 8000, "pieces of the tokenizer, special pieces included")
    longest: int = number(16, 512, "pieces that the model takes at most, special pieces included")
    cased: bool = option(default=False, help="keep capitals and accents")
    updates: int = number(1, 8000, "how long to train; the default takes about an hour on two cores")
    tokens: int = number(1, 4096, "pieces in a batch at most")
    valid: int = number(1, 1000, "lines at the end of the text to validate on")
    seed: int = seed("of weights, order, and hidden pieces")
    every: int = number(1, 250, "updates between two checkpoints")

    def check(self, parser: Parser) -> None:
        """See `Question`."""
        if self.width % self.heads:
            parser.error(f"--width {self.width} cannot be shared among {self.heads} heads")
        if self.tokens < self.longest:
            parser.error("--tokens must not be less than --longest: a batch has at least one example")

    def run(self, words: Sequence[str], request: Request, output: FindingArgs) -> None:
        """Write a model folder; nothing is printed."""
        import_module("align.analysis.bert").train_folder(self, shlex.join([*PROGRAM.split(), *words]), request)


COMMANDS: dict[str, type[Question]] = {
    "mixing": Mixing,
    "patterns": Patterns,
    "syntax": Syntax,
    "coreference": Coreference,
    "similarity": Similarity,
    "keywords": Keywords,
    "layers": Layers,
    "ablate": Ablate,
    "prune": Prune,
    "adversary": Adversary,
    "adversary-translation": AdversaryTranslation,
    "train-bert": TrainBert,
}
"""Questions by the names of their commands."""
