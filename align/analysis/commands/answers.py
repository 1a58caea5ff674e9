"""Analyses of `extract-align analyse`: the work of each command, and the parts of its signature."""

from __future__ import annotations

import errno
import time
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from align.analysis.commands.common import PROGRAM, Common, load_aligner, load_inspected, need_target, parts_of, text_of
from align.cli.args import ModelArgs
from align.cli.common import open_output, say
from align.cli.gold_args import GoldArgs
from align.cli.options import read_group
from align.cli.sweep import need
from align.core.errors import DataError, ModelError, plural
from align.core.formats import to_json
from align.core.types import PARTS, Gold, Pair, Part, Search, TextWarning
from align.evaluation.gold import read_as
from align.io.checks import open_text
from align.io.reader import Input, name_shown, read_text
from align.io.signature import Parts
from align.models.folder import find_model
from align.view.findings import Finding

if TYPE_CHECKING:
    from align.analysis.maps import Inspected

Answer = tuple[Finding, Parts]

REPORT_EVERY = 30.0
"""Seconds between two lines about progress."""


def names_of(*files: str | None) -> str:
    """Join the names of files without their folders, for the signature."""
    return "+".join(Path(name_shown(name)).name for name in files if name)


def progress_of(common: Common) -> Callable[[str], None]:
    """Return a callback that reports progress, unless quiet."""
    return (lambda text: None) if common.quiet else lambda text: say(f"{PROGRAM}: {text}")


# Attention to a text.


def _ask(
    common: Common, args: Namespace, question: Callable[[Inspected, Iterator[Pair], list[Part]], Finding], **more: Any
) -> Answer:
    """Run an analysis of a text, warn about lines that are too long, and sign with the number of lines read."""
    model, files = load_inspected(common), text_of(args)
    with open_text(files) as text:
        finding = question(model, islice(text, args.lines), parts_of(model, args.parts, files.one_side))
        if model.too_long:
            message = f"too long for the model, and left out: {plural(model.too_long, 'line')}"
            warnings.warn(message, TextWarning, stacklevel=2)
        return finding, {"model": model.name, "n": text.lines - model.left_out, **more, "seed": args.seed}


def mixing(common: Common, args: Namespace) -> Answer:
    """Compare norms with weights, by kind of piece."""
    from align.analysis.mixing import mixing

    return _ask(common, args, lambda model, pairs, parts: mixing(model, pairs, parts, args.seed))


def similarity(common: Common, args: Namespace) -> Answer:
    """Compare all pairs of heads."""
    need("sklearn", "maps of heads", "scikit-learn")
    from align.analysis.similarity import similarity

    return _ask(common, args, lambda model, pairs, parts: similarity(model, pairs, parts, args.seed))


def patterns(common: Common, args: Namespace) -> Answer:
    """Classify the pattern of each attention map."""
    from align.analysis.patterns import patterns

    def question(model: Inspected, pairs: Iterator[Pair], parts: list[Part]) -> Finding:
        return patterns(model, pairs, parts, args.threshold, args.seed)

    return _ask(common, args, question, threshold=f"{args.threshold:g}")


# Probes and annotated text.


def syntax(common: Common, args: Namespace) -> Answer:
    """Compare the encoder's attention with the trees of a treebank."""
    if not args.no_probes:
        need("sklearn", "probes", "scikit-learn")
    from align.analysis.data.treebank import read_treebank
    from align.analysis.syntax import syntax

    file = name_shown(args.input)
    trees = read_treebank(args.input, args.sentences)
    model = load_inspected(common)
    parts: dict[str, Any] = {
        "model": model.name,
        "treebank": names_of(args.input),
        "n": len(trees),
        "fewest": args.fewest,
    }
    parts |= {
        "seed": args.seed,
        "vectors": names_of(args.vectors) or None,
        "probes": "none" if args.no_probes else None,
    }
    return syntax(model, trees, args.fewest, args.seed, args.vectors, not args.no_probes, file), parts


def coreference(common: Common, args: Namespace) -> Answer:
    """Measure how well heads link pronouns to names."""
    from align.analysis.coreference import coreference
    from align.analysis.data.gap import read_paragraphs

    paragraphs = read_paragraphs(args.input, args.paragraphs)
    model = load_inspected(common)
    parts: dict[str, Any] = {"model": model.name, "gap": names_of(args.input), "n": len(paragraphs), "seed": args.seed}
    return coreference(model, paragraphs, args.seed, name_shown(args.input)), parts


def keywords(common: Common, args: Namespace) -> Answer:
    """Find heads that attend to key words, tune them and mask them."""
    need("sklearn", "regressions", "scikit-learn")
    from align.analysis.data.keyphrases import SPLITS, Corpus, read_keyphrases
    from align.analysis.keywords import Plan, keywords

    file = name_shown(args.keyphrases)
    documents = read_keyphrases(args.keyphrases, file)
    by_split = [[document for document in documents if document.split == split][: args.documents] for split in SPLITS]
    corpus = Corpus([document for part in by_split for document in part], file)
    model = load_inspected(common)
    finding = keywords(model, corpus, Plan(args.samples, args.seed, args.epochs, args.rate, args.random_orders))
    parts: dict[str, Any] = {"model": model.name, "data": names_of(args.keyphrases)}
    parts |= {split: len(part) for split, part in zip(SPLITS, by_split, strict=True)}
    parts |= {"epochs": args.epochs}
    parts |= {"rate": f"{args.rate:g}", "orders": args.random_orders} if args.epochs else {}
    return finding, {**parts, "samples": args.samples, "seed": args.seed}


def layers(common: Common, args: Namespace) -> Answer:
    """Probe each layer's vectors, and write the predictions for each example."""
    model = load_inspected(common)
    from align.analysis.data.chunks import read_sentences
    from align.analysis.data.treebank import read_treebank
    from align.analysis.layers import Settings, Task, chunk_task, examples, layers, treebank_tasks

    tasks: list[Task] = []
    texts: list[Sequence[Sequence[str]]] = []  # of each task
    lines = 0
    if args.treebank:
        trees = read_treebank(args.treebank, args.lines)
        tasks += treebank_tasks(model, trees, args.folds, args.seed, name_shown(args.treebank))
        texts += [[tree.words for tree in trees]] * len(tasks)
        lines += len(trees)
    if args.train:
        train, test = (read_sentences(name)[: args.lines] for name in (args.train, args.test))
        tasks.append(chunk_task(model, train, test, (name_shown(args.train), name_shown(args.test))))
        texts.append([sentence.words for sentence in (*train, *test)])
        lines += len(train) + len(test)
    finding, predictions = layers(tasks, Settings(args.hidden, args.epochs, args.seed), progress_of(common))
    if args.examples:
        with open_output(args.examples) as out:
            for predicted, text in zip(predictions, texts, strict=True):
                for example in examples(predicted, text):
                    out.write(to_json(example).encode() + b"\n")
    parts: dict[str, Any] = {"model": model.name, "data": names_of(args.treebank, args.train, args.test), "n": lines}
    parts |= {"parts": args.folds if args.treebank else None, "hidden": args.hidden, "epochs": args.epochs}
    return finding, {**parts, "seed": args.seed}


# Translation models without some heads.


def ablate(common: Common, args: Namespace) -> Answer:
    """Mask and prune heads, and measure loss, BLEU and AER."""
    if args.bleu_lines:
        need("sacrebleu", "scores of translations")
    pairs, file = _read_pairs(args)
    gold: Sequence[Gold] | None = None
    kind = None
    if args.gold:
        links = read_as("gold", args.gold, read_group(GoldArgs, args).options, pairs, name_shown(args.gold))
        gold, kind = links.pairs[: args.lines], links.kind
    pairs = pairs[: args.lines]
    aligner = load_aligner(common)
    from align.analysis.ablation import Ablation, report, study

    search = Search(args.beam)
    translator = aligner.forward.recorder.translator(search, aligner.batch_tokens) if args.bleu_lines else None
    ablation = Ablation(aligner, pairs, gold, translator, args.bleu_lines, file)
    progress, reported = progress_of(common), time.monotonic()

    def tick(done: int, total: int) -> None:
        nonlocal reported
        if time.monotonic() - reported > REPORT_EVERY:
            reported = time.monotonic()
            progress(f"{done:,} of {total:,} measurements")

    finding = report(ablation, study(ablation, args.parts or PARTS, tick), args.samples, args.seed)
    parts: dict[str, Any] = {
        "model": aligner.forward.recorder.name,
        "text": names_of(*text_of(args).files),
        "n": len(pairs),
    }
    parts |= {"parts": "+".join(args.parts) or None, "gold": kind}
    parts |= {"bleu": f"{len(ablation.references)}-{search}" if translator else None}
    return finding, {**parts, "ci": f"percentile-{args.samples}", "seed": args.seed}


def prune(common: Common, args: Namespace) -> Answer:
    """Choose heads, write the model without them, and load the result, which checks it."""
    pairs, file = _read_pairs(args)
    pairs = pairs[: args.lines]
    if args.output.exists():
        raise FileExistsError(errno.EEXIST, "the folder exists: name another one", str(args.output))
    aligner = load_aligner(common)
    from align.analysis.ablation import Ablation
    from align.analysis.pruning import least_needed, pruning, write_pruned
    from align.models.recorder import ModelRecorder

    recorder = aligner.forward.recorder
    if not (isinstance(recorder, ModelRecorder) and recorder.backend == "fairseq"):
        raise ModelError(f"{aligner.forward.recorder.name}: heads can be taken out of fairseq models only")
    request = common.request
    folder = find_model(request.name, request.options)
    before = Ablation(aligner, pairs, file=file)
    heads = least_needed(before, args.heads, args.order)
    write_pruned(folder, recorder, heads, args.output)
    smaller = replace(request, model=ModelArgs(str(args.output)))
    pruned = load_aligner(replace(common, request=smaller), whole=False)
    written = find_model(smaller.name, smaller.options)
    parts: dict[str, Any] = {"model": recorder.name, "text": names_of(*text_of(args).files), "n": len(pairs)}
    finding = pruning(before, heads, folder.checkpoint, written.checkpoint)
    return finding, {**parts, "order": args.order, "pruned": pruned.forward.recorder.name}


def _read_pairs(args: Namespace) -> tuple[list[Pair], str]:
    """Read all pairs of a text; return them with the names of its files for errors."""
    files = text_of(args)
    if files.one_side:
        raise need_target("a loss needs a text's other side")
    with open_text(files) as pairs:
        return list(pairs), " and ".join(map(name_shown, files.files))


# Adversaries.


def adversary(common: Common, args: Namespace) -> Answer:
    """Train taggers with the same predictions and different attention."""
    from align.analysis.data.chunks import read_sentences

    train, test = read_sentences(args.train), read_sentences(args.test)
    import torch

    from align.analysis.adversary import Learning, exclusive
    from align.io.process import keep_freed_memory

    keep_freed_memory()
    if common.request.run.threads:
        torch.set_num_threads(common.request.run.threads)
    learning = Learning(epochs=args.epochs, seed=args.seed)
    finding = exclusive(
        train, test, args.lambdas, args.divergence, args.seeds, args.threshold, learning, progress_of(common)
    )
    return finding, {
        "train": f"{Path(args.train).name}({len(train)})",
        "test": f"{Path(args.test).name}({len(test)})",
        "lambda": ",".join(f"{weight:g}" for weight in args.lambdas),
        "divergence": args.divergence,
        "threshold": "seeds" if args.threshold is None else f"{args.threshold:g}",
        "epochs": args.epochs,
        "seed": args.seed,
        "seeds": ",".join(map(str, args.seeds)),
    }


def adversary_translation(common: Common, args: Namespace) -> Answer:
    """Train translation models with the same predictions and different attention."""
    files = (args.tune_source, args.tune_target)
    with open_text(Input(files, parallel=True)) as lines:
        tuning = list(islice(lines, args.pairs + args.held_out))
    if len(tuning) <= args.pairs:
        raise DataError(f"{len(tuning):,} lines: none is left to measure on", file=name_shown(files[0]))
    text = read_text(args.source, args.target, (name_shown(args.source), name_shown(args.target)))
    gold = read_as("gold", args.gold, read_group(GoldArgs, args).options, text, name_shown(args.gold))
    if not any(pair.possible for pair in gold.pairs):
        raise DataError("no sentence has a link", file=name_shown(args.gold))
    recorder: Any = load_aligner(common).forward.recorder
    from align.analysis.adversary_translation import Settings, moved
    from align.models.recorder import ModelRecorder

    if not (isinstance(recorder, ModelRecorder) and recorder.backend == "fairseq"):
        raise DataError(f"{recorder.name}: only models of fairseq can be trained here")
    options = Settings(args.lambdas, args.divergence, args.move, args.updates, seed=args.seed)
    halves = tuning[: args.pairs], tuning[args.pairs :]
    file = " and ".join(map(name_shown, files))
    finding = moved(recorder, *halves, text, gold.pairs, options, progress_of(common), file)
    return finding, {
        "model": recorder.name,
        "tuned": f"{Path(files[0]).name}({args.pairs})",
        "held-out": len(tuning) - args.pairs,
        "text": Path(args.source).name,
        "n": len(text),
        "gold": gold.kind,
        "lambda": ",".join(f"{weight:g}" for weight in args.lambdas),
        "divergence": args.divergence,
        "move": args.move,
        "updates": args.updates,
        "seed": args.seed,
    }
