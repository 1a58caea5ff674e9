"""Questions of `extract-align analyse`: the options of each command, its work, and the parts of its signature."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from align.analysis.commands.common import (
    Answer,
    AttentionQuestion,
    Question,
    TextQuestion,
    attention,
    file,
    learning_rate,
    load_aligner,
    load_inspected,
    names_of,
    number,
    progress_of,
    seed,
    seed_list,
    weight_list,
)
from align.cli.args import MAX_BEAM, ModelArgs
from align.cli.common import open_output
from align.cli.gold_args import GoldArgs
from align.cli.loading import LANGUAGES, Request
from align.cli.options import argument, number_up_to, option, whole_number
from align.cli.parser import Parser
from align.cli.sweep import need
from align.core.errors import DataError, ModelError
from align.core.formats import to_json
from align.core.types import PARTS, Gold, Pair, Part, Search
from align.evaluation.gold import read_as
from align.evaluation.metrics import SAMPLES, SEED
from align.io.checks import open_text
from align.io.reader import Input, name_shown, read_text
from align.models.folder import find_model
from align.view.findings import Finding

if TYPE_CHECKING:
    from align.analysis.maps import Inspected

VECTORS = "embeddings for probes, a word and its numbers a line, as GloVe has them (default: the model's own)"
KEYPHRASES = 'JSON lines with "split" (train, dev or test), "sentences" (lists of words) and "keyphrases"'
THRESHOLD_HELP = "how far above chance attention to a pattern's cells has to be, from 0 to 1"
SAFE = "distance of predictions up to which attention has moved safely (default: the mean of the other seeds')"
ORDER = "which go first: those on whose gates the loss depends least, or those without which it rises least"
LAMBDAS = "weights of the divergence term; one adversary is trained for each"
DIVERGENCE = "how far attention has moved: js has an upper end, kl (as published) has none"
OTHER_SEEDS = "of taggers to compare with"
MOVE = "what is to move: attention by weight, or by norm"

REPORT_EVERY = 30.0  # seconds between two lines about progress


# Attention to a text.


@dataclass(frozen=True)
class Mixing(AttentionQuestion):
    """Compare norms with weights: which kinds of pieces get attention, and how much of it arrives.

    extract-align analyse mixing text   lines `source ||| target`: encoder, decoder, cross-attention
    extract-align analyse mixing -s text.de   the encoder alone, which needs no translation
    """

    seed: int = seed("of points drawn for correlations")

    def answer(self, request: Request) -> Answer:
        """See `Question`."""
        from align.analysis.mixing import mixing

        return self.ask(request, lambda model, pairs, parts: mixing(model, pairs, parts, self.seed), self.seed)


@dataclass(frozen=True)
class Patterns(AttentionQuestion):
    """Classify maps of attention: stripes, diagonals, blocks.

    extract-align analyse patterns text --plots figures/patterns   shares, and the most typical maps
    extract-align analyse patterns -s text.de --threshold 0.4   a rule that asks for less; the encoder alone
    """

    threshold: float = option("--threshold", type=number_up_to(1), metavar="N", default=0.5, help=THRESHOLD_HELP)
    seed: int = seed("of the bootstrap")

    def answer(self, request: Request) -> Answer:
        """See `Question`."""
        from align.analysis.patterns import patterns

        def question(model: Inspected, pairs: Iterator[Pair], parts: list[Part]) -> Finding:
            return patterns(model, pairs, parts, self.threshold, self.seed)

        return self.ask(request, question, self.seed, threshold=f"{self.threshold:g}")


@dataclass(frozen=True)
class Similarity(AttentionQuestion):
    """Compare all pairs of heads by their divergence, and draw a map of heads.

    extract-align analyse similarity text --plots figures/similarity
    extract-align analyse similarity -s text.de --lines 200   the encoder alone
    """

    seed: int = seed("of the map of heads")

    def answer(self, request: Request) -> Answer:
        """See `Question`."""
        need("sklearn", "maps of heads", "scikit-learn")
        from align.analysis.similarity import similarity

        return self.ask(request, lambda model, pairs, parts: similarity(model, pairs, parts, self.seed), self.seed)


# Probes and annotated text.


@dataclass(frozen=True)
class Syntax(Question):
    """Measure what the encoder's attention knows of syntax: heads and probes on a treebank.

    extract-align analyse syntax de.conllu   single heads, and probes of all heads
    extract-align analyse syntax en.conllu -m en-de --no-probes   single heads only, which is quick
    """

    input: str = argument(reads=True, metavar="TREEBANK", help="sentences with their trees, in CoNLL-U")
    sentences: int | None = number("--sentences", 1, None, "read the first N sentences only")
    fewest: int = number("--fewest", 1, 20, "words of a relation that gets a row")
    no_probes: bool = option("--no-probes", default=False, help="train none, which takes most of the time")
    vectors: str | None = file("--vectors", help=VECTORS)
    seed: int = seed("of halves, folds and draws")

    def answer(self, request: Request) -> Answer:
        """See `Question`."""
        if not self.no_probes:
            need("sklearn", "probes", "scikit-learn")
        from align.analysis.data.treebank import read_treebank
        from align.analysis.syntax import syntax

        trees = read_treebank(self.input, self.sentences)
        model = load_inspected(request)
        shown = name_shown(self.input)
        finding = syntax(model, trees, self.fewest, self.seed, self.vectors, not self.no_probes, shown)
        return finding, {
            "model": model.name,
            "treebank": names_of(self.input),
            "n": len(trees),
            "fewest": self.fewest,
            "seed": self.seed,
            "vectors": names_of(self.vectors) or None,
            "probes": "none" if self.no_probes else None,
        }


@dataclass(frozen=True)
class Coreference(Question):
    """Find heads of the encoder that know whom a pronoun means, on paragraphs of GAP.

    extract-align analyse coreference gap-test.tsv -m en-de
    """

    input: str = argument(metavar="FILE", help="paragraphs with a pronoun and two names, as GAP's .tsv files")
    paragraphs: int | None = number("--paragraphs", 1, None, "read the first N paragraphs only")
    seed: int = seed("of halves and draws")

    def answer(self, request: Request) -> Answer:
        """See `Question`."""
        from align.analysis.coreference import coreference
        from align.analysis.data.gap import read_paragraphs

        paragraphs = read_paragraphs(self.input, self.paragraphs)
        model = load_inspected(request)
        finding = coreference(model, paragraphs, self.seed, name_shown(self.input))
        named = {"model": model.name, "gap": names_of(self.input)}
        return finding, {**named, "n": len(paragraphs), "seed": self.seed}


@dataclass(frozen=True)
class Keywords(Question):
    """Find heads that look at key words, with fine-tuning and ablation.

    extract-align analyse keywords -m en-de --keyphrases inspec.jsonl   an encoder's heads, and fine-tuning
    extract-align analyse keywords -m en-de --keyphrases inspec.jsonl --epochs 0   without fine-tuning
    """

    keyphrases: str = file("--keyphrases", help=KEYPHRASES, required=True)
    documents: int | None = number("--documents", 1, None, "the first N of train, of dev and of test only")
    epochs: int = number("--epochs", 0, 3, "of fine-tuning; 0: none")
    rate: float = option("--rate", type=learning_rate, default=3e-4, metavar="X", help="of learning, the highest")
    random_orders: int = number("--random-orders", 0, 5, "random orders in which heads are masked")
    samples: int = number("--samples", 0, 1000, "of the bootstrap over documents; 0: none")
    seed: int = seed("of samples, fine-tuning and random orders")

    def answer(self, request: Request) -> Answer:
        """See `Question`."""
        need("sklearn", "regressions", "scikit-learn")
        from align.analysis.data.keyphrases import SPLITS, Corpus, read_keyphrases
        from align.analysis.keywords import Plan, keywords

        shown = name_shown(self.keyphrases)
        documents = read_keyphrases(self.keyphrases, shown)
        by_split = {name: [each for each in documents if each.split == name][: self.documents] for name in SPLITS}
        corpus = Corpus([document for part in by_split.values() for document in part], shown)
        model = load_inspected(request)
        finding = keywords(model, corpus, Plan(self.samples, self.seed, self.epochs, self.rate, self.random_orders))
        return finding, {
            "model": model.name,
            "data": names_of(self.keyphrases),
            **{split: len(part) for split, part in by_split.items()},
            "epochs": self.epochs,
            "rate": f"{self.rate:g}" if self.epochs else None,
            "orders": self.random_orders if self.epochs else None,
            "samples": self.samples,
            "seed": self.seed,
        }


@dataclass(frozen=True)
class Layers(Question):
    """Measure what each layer adds to what is known of words: probes of layers 0 to l, for each l.

    extract-align analyse layers -m en-de --treebank en.conllu
    extract-align analyse layers -m bert --train train.txt --test test.txt --examples examples.jsonl
    """

    treebank: str | None = file("--treebank", help="CoNLL-U, for parts of speech and dependencies")
    train: str | None = file("--train", help="CoNLL-2000, to train probes of chunks on")
    test: str | None = file("--test", help="requires --train: to score them")
    lines: int | None = number("--lines", 1, None, "read the first N sentences of each file only")
    hidden: int = number("--hidden", 0, 256, "units of the hidden layer, 0 for a linear probe")
    epochs: int = number("--epochs", 1, 10, "passes over the training examples")
    folds: int = number("--folds", 2, 5, "cross-validation folds of the treebank")
    seed: int = seed("of the random numbers")
    examples: str | None = option(
        writes=True, metavar="FILE", help="write what they say of each example, layer by layer: JSON lines"
    )

    def check(self, parser: Parser) -> None:
        """See `Question`."""
        if (self.train is None) != (self.test is None):
            parser.error("--train and --test go together")
        if self.treebank is None and self.train is None:
            parser.error("give --treebank, or --train and --test, or all of them")

    def answer(self, request: Request) -> Answer:
        """See `Question`."""
        model = load_inspected(request)
        from align.analysis.data.chunks import read_sentences
        from align.analysis.data.treebank import read_treebank
        from align.analysis.layers import Settings, Task, chunk_task, examples, layers, treebank_tasks

        tasks: list[Task] = []
        texts: list[Sequence[Sequence[str]]] = []  # of each task
        lines = 0
        if self.treebank:
            trees = read_treebank(self.treebank, self.lines)
            tasks += treebank_tasks(model, trees, self.folds, self.seed, name_shown(self.treebank))
            texts += [[tree.words for tree in trees]] * len(tasks)
            lines += len(trees)
        if self.train and self.test:
            train, test = (read_sentences(name)[: self.lines] for name in (self.train, self.test))
            tasks.append(chunk_task(model, train, test, (name_shown(self.train), name_shown(self.test))))
            texts.append([sentence.words for sentence in (*train, *test)])
            lines += len(train) + len(test)
        settings = Settings(self.hidden, self.epochs, self.seed)
        finding, predictions = layers(tasks, settings, progress_of(request))
        if self.examples:
            with open_output(self.examples) as out:
                for predicted, text in zip(predictions, texts, strict=True):
                    for example in examples(predicted, text):
                        out.write(to_json(example).encode() + b"\n")
        return finding, {
            "model": model.name,
            "data": names_of(self.treebank, self.train, self.test),
            "n": lines,
            "parts": self.folds if self.treebank else None,
            "hidden": self.hidden,
            "epochs": self.epochs,
            "seed": self.seed,
        }


# Translation models without some heads.


@dataclass(frozen=True)
class Ablate(TextQuestion, GoldArgs):
    """Find the heads that a model needs to translate, and to align: mask each, prune one after the other.

    extract-align analyse ablate -s test.de -t test.en -g gold.talp   loss, BLEU and AER without each head
    extract-align analyse ablate -s test.de -t test.en --bleu-lines 0 --attention cross
    """

    ONE_SIDE = False
    parts: tuple[Part, ...] = attention("all")
    bleu_lines: int = number("--bleu-lines", 0, 100, "sentences to translate; 0: none")
    beam: int = number("--beam", 1, Search().beam, "width of the beam search", MAX_BEAM)
    samples: int = number("--samples", 0, SAMPLES, "of the bootstraps; 0: none")
    seed: int = seed("of the bootstrap of loss and AER", SEED)

    def answer(self, request: Request) -> Answer:
        """See `Question`."""
        if self.bleu_lines:
            need("sacrebleu", "scores of translations")
        pairs, shown = self.read_pairs()
        gold: Sequence[Gold] | None = None
        kind = None
        if self.gold:
            links = read_as("gold", self.gold, self.options, pairs, name_shown(self.gold))
            gold, kind = links.pairs[: self.lines], links.kind
        pairs = pairs[: self.lines]
        aligner = load_aligner(request)
        from align.analysis.ablation import Ablation, report, study

        search, recorder = Search(self.beam), aligner.forward.recorder
        translator = recorder.translator(search, aligner.batch_tokens) if self.bleu_lines else None
        ablation = Ablation(aligner, pairs, gold, translator, self.bleu_lines, shown)
        progress, reported = progress_of(request), time.monotonic()

        def tick(done: int, total: int) -> None:
            nonlocal reported
            if time.monotonic() - reported > REPORT_EVERY:
                reported = time.monotonic()
                progress(f"{done:,} of {total:,} measurements")

        finding = report(ablation, study(ablation, self.parts or PARTS, tick), self.samples, self.seed)
        return finding, {
            "model": recorder.name,
            "text": names_of(*self.text.files),
            "n": len(pairs),
            "parts": "+".join(self.parts) or None,
            "gold": kind,
            "bleu": f"{len(ablation.references)}-{search}" if translator else None,
            "ci": f"percentile-{self.samples}",
            "seed": self.seed,
        }


@dataclass(frozen=True)
class Prune(TextQuestion):
    """Write a fairseq model without the heads that it needs least: smaller, faster, for this package only.

    extract-align analyse prune -s valid.de -t valid.en --heads 9 -o smaller   which extract-align -m smaller reads
    """

    ONE_SIDE, WITHOUT = False, ("plots",)
    heads: int = option("--heads", type=whole_number(1), required=True, metavar="N", help="how many heads are to go")
    order: Literal["importance", "effect"] = option(
        "--rank-by", choices=("importance", "effect"), default="importance", help=ORDER
    )
    output: Path = option(
        "-o", "--output", type=Path, required=True, metavar="FOLDER", help="a new folder for the model"
    )

    def answer(self, request: Request) -> Answer:
        """See `Question`."""
        pairs, shown = self.read_pairs()
        pairs = pairs[: self.lines]
        if self.output.exists():
            raise FileExistsError(errno.EEXIST, "the folder exists: name another one", str(self.output))
        aligner = load_aligner(request)
        recorder: Any = aligner.forward.recorder
        from align.analysis.ablation import Ablation
        from align.analysis.pruning import least_needed, pruning, write_pruned

        if recorder.backend != "fairseq":
            raise ModelError(f"{recorder.name}: heads can be taken out of fairseq models only")
        folder = find_model(request.name, request.options)
        before = Ablation(aligner, pairs, file=shown)
        heads = least_needed(before, self.heads, self.order)
        write_pruned(folder, recorder, heads, self.output)
        smaller = replace(request, model=ModelArgs(str(self.output)))
        pruned = load_aligner(smaller, whole=False)
        written = find_model(smaller.name, smaller.options)
        return pruning(before, heads, folder.checkpoint, written.checkpoint), {
            "model": recorder.name,
            "text": names_of(*self.text.files),
            "n": len(pairs),
            "order": self.order,
            "pruned": pruned.forward.recorder.name,
        }


# Adversaries.


@dataclass(frozen=True)
class Adversary(Question):
    """Test whether attention is exclusive: train taggers of chunks that say the same and attend elsewhere.

    extract-align analyse adversary --train train.txt --test test.txt   files as CoNLL-2000 has them
    extract-align analyse adversary --train train.txt --test test.txt --divergence kl --lambdas 0.2,1,3
    """

    WITHOUT = ("model", "device", *LANGUAGES)
    train: str = file("--train", help="what taggers learn from, in CoNLL-2000's format", required=True)
    test: str = file("--test", help="what they are measured on", required=True)
    lambdas: tuple[float, ...] = option(
        "--lambdas", type=weight_list, default=(0.02, 0.05, 0.2, 1, 3), metavar="L,L", help=LAMBDAS
    )
    divergence: Literal["js", "kl"] = option("--divergence", choices=("js", "kl"), default="js", help=DIVERGENCE)
    epochs: int = number("--epochs", 1, 6, "passes over what they learn from")
    seed: int = seed("of the original tagger; adversaries take the next one")
    seeds: tuple[int, ...] = option("--other-seeds", type=seed_list, default=(2, 3), metavar="N,N", help=OTHER_SEEDS)
    threshold: float | None = option("--threshold", type=number_up_to(1, "seeds"), metavar="TVD", help=SAFE)

    def check(self, parser: Parser) -> None:
        """See `Question`."""
        if self.seed in self.seeds:
            parser.error("--other-seeds takes others than --seed")

    def answer(self, request: Request) -> Answer:
        """See `Question`."""
        from align.analysis.data.chunks import read_sentences

        train, test = read_sentences(self.train), read_sentences(self.test)
        import torch

        from align.analysis.adversary import Learning, exclusive
        from align.io.process import keep_freed_memory

        keep_freed_memory()
        if request.run.threads:
            torch.set_num_threads(request.run.threads)
        learning, lambdas = Learning(epochs=self.epochs, seed=self.seed), sorted(self.lambdas)
        finding = exclusive(
            train, test, lambdas, self.divergence, self.seeds, self.threshold, learning, progress_of(request)
        )
        return finding, {
            "train": f"{names_of(self.train)}({len(train)})",
            "test": f"{names_of(self.test)}({len(test)})",
            "lambda": ",".join(f"{weight:g}" for weight in lambdas),
            "divergence": self.divergence,
            "threshold": "seeds" if self.threshold is None else f"{self.threshold:g}",
            "epochs": self.epochs,
            "seed": self.seed,
            "seeds": ",".join(map(str, self.seeds)),
        }


@dataclass(frozen=True)
class AdversaryTranslation(Question, GoldArgs):
    """Measure how far a translation model's cross-attention can move, and how its links change.

    extract-align analyse adversary-translation --tune-source valid.de --tune-target valid.en -s a.de -t a.en -g gold
    """

    CHANGES: ClassVar = {"gold": {"required": True}}
    tune_source: str = file("--tune-source", help="what adversaries learn from", required=True)
    tune_target: str = file("--tune-target", help="its other side", required=True)
    pairs: int = number("--pairs", 1, 1000, "lines of it to learn from")
    held_out: int = number("--held-out", 1, 500, "lines behind these, to measure losses on")
    source: str = file("-s", "--source", help="what is linked", required=True)
    target: str = file("-t", "--target", help="its other side", required=True)
    lambdas: tuple[float, ...] = option("--lambdas", type=weight_list, default=(0.3, 1, 3), metavar="L,L", help=LAMBDAS)
    divergence: Literal["js", "kl"] = option("--divergence", choices=("js", "kl"), default="js", help=DIVERGENCE)
    move: Literal["weight", "norm"] = option("--move", choices=("weight", "norm"), default="weight", help=MOVE)
    updates: int = number("--updates", 1, 200, "of each")
    seed: int = seed("of the order of batches")

    def answer(self, request: Request) -> Answer:
        """See `Question`."""
        files = (self.tune_source, self.tune_target)
        with open_text(Input(files, parallel=True)) as lines:
            tuning = list(islice(lines, self.pairs + self.held_out))
        if len(tuning) <= self.pairs:
            raise DataError(f"{len(tuning):,} lines: none is left to measure on", file=name_shown(files[0]))
        text = read_text(self.source, self.target, (name_shown(self.source), name_shown(self.target)))
        shown = name_shown(str(self.gold))
        gold = read_as("gold", str(self.gold), self.options, text, shown)
        if not any(pair.possible for pair in gold.pairs):
            raise DataError("no sentence has a link", file=shown)
        recorder: Any = load_aligner(request).forward.recorder
        from align.analysis.adversary_translation import Settings, moved

        if recorder.backend != "fairseq":
            raise DataError(f"{recorder.name}: only models of fairseq can be trained here")
        lambdas = sorted(self.lambdas)
        options = Settings(lambdas, self.divergence, self.move, self.updates, seed=self.seed)
        halves = tuning[: self.pairs], tuning[self.pairs :]
        file = " and ".join(map(name_shown, files))
        finding = moved(recorder, *halves, text, gold.pairs, options, progress_of(request), file)
        return finding, {
            "model": recorder.name,
            "tuned": f"{names_of(files[0])}({self.pairs})",
            "held-out": len(tuning) - self.pairs,
            "text": names_of(self.source),
            "n": len(text),
            "gold": gold.kind,
            "lambda": ",".join(f"{weight:g}" for weight in lambdas),
            "divergence": self.divergence,
            "move": self.move,
            "updates": self.updates,
            "seed": self.seed,
        }


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
}
"""Questions by the names of their commands."""
