"""Measures key words by attention (after M. Štefánik): which heads attend to them, and how well attention finds them.

A translation model's encoder or a BERT can also be fine-tuned to mark key words, and its heads masked afterwards.

Letters: L layers, H heads, W words of a sentence, N words of all documents, C cells (heads of all layers), D documents,
B batch, S pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.nn.utils.rnn import pad_sequence

from align.analysis.commands.common import Answer, load_inspected, names_of
from align.analysis.commands.questions import Keywords
from align.analysis.data.keyphrases import DEV, SPLITS, TEST, TRAIN, Corpus, read_keyphrases, runs
from align.analysis.maps import (
    SPECIAL,
    Counts,
    Doubles,
    Inspected,
    Maps,
    Mask,
    between_words,
    has_piece,
    need_encoder,
)
from align.analysis.models.encoder import EncoderModel
from align.analysis.models.heads import AttentionHead, attention_blocks, masked
from align.analysis.models.native import own_model
from align.analysis.plots import curves, head_maps
from align.analysis.resampling import draw_times, middle, percents
from align.cli.loading import Request
from align.cli.sweep import need
from align.core.errors import DataError
from align.core.stream import batches
from align.core.types import Pair
from align.evaluation.tables import Interval
from align.io.reader import name_shown
from align.view.findings import Finding, Table, make_table

MEASURES = {"weights": "a", "norms": "‖af‖"}  # measures and their symbols in tables of heads
TINY = 1e-12  # lower bound of shares of attention before their logarithm is taken
BATCH_TOKENS = 2000  # maximum number of pieces in a batch of fine-tuning
STEPS = 6  # maximum number of steps in which heads are masked


# Which heads attend to key words.


def received(maps: Maps) -> tuple[Doubles, Mask]:
    """Return the attention that each word of a sentence receives from all words, as a multiple of an even share.

    Norms are divided by their sum over each row, so that both measures treat special pieces in the same way. Returns
    `[2, W, C]`, and which words have pieces `[W]`.
    """
    norms = maps.norms / np.maximum(maps.norms.sum(-1, keepdims=True), TINY)  # [L, H, T, S]
    there = has_piece(maps.columns)
    measures = []
    for values in (maps.weights, norms):
        words = between_words(values, maps.rows, maps.columns)  # [L, H, W, W]
        mean = words[:, :, there].mean(2)  # [L, H, W]
        measures.append(mean.reshape(-1, len(there)).T * there.sum())
    return np.array(measures, float), there


def sentences_of(corpus: Corpus) -> list[tuple[int, slice, tuple[str, ...]]]:
    """Return the document of each sentence, the positions of its words in the corpus, and the words."""
    sentences, start = [], 0
    for n, document in enumerate(corpus.documents):
        for words in document.sentences:
            sentences.append((n, slice(start, start + len(words)), words))
            start += len(words)
    return sentences


def read_corpus(model: Inspected, corpus: Corpus) -> tuple[Doubles, Mask]:
    """Return the attention that words receive in their sentence `[2, N, C]`, and which were read `[N]`."""
    values = np.zeros((len(MEASURES), len(corpus.gold), int(np.prod(model.shape["encoder"]))))
    read = np.zeros(len(corpus.gold), bool)
    sentences = sentences_of(corpus)
    pairs = (Pair(words, (), n) for n, (_, _, words) in enumerate(sentences, 1))
    for (_, place, _), maps in zip(sentences, model.read(pairs, ["encoder"]), strict=True):
        if maps:
            values[:, place], read[place] = received(maps["encoder"])
    return values, read


class HeadSums(NamedTuple):
    """Sums over the sentences of each of D training documents that have both key words and other words."""

    relative: Doubles  # of the mean attention that key words receive minus that of other words `[2, D, C]`
    entropy: Doubles  # of the cross-entropy of attention with an even distribution over key words, nats `[2, D, C]`
    even: Doubles  # of the cross-entropy of attention spread evenly over all words `[D]`
    sentences: Doubles  # number of these sentences `[D]`


def sum_heads(corpus: Corpus, attention: Doubles, read: Mask) -> HeadSums:
    """Sum the measures of heads over the training part; see `read_corpus`."""
    numbers = {n: row for row, n in enumerate(corpus.numbers(TRAIN))}
    relative, entropy = np.zeros((2, len(MEASURES), len(numbers), attention.shape[2]))
    even, count = np.zeros((2, len(numbers)))
    for document, place, _ in sentences_of(corpus):
        key = corpus.gold[place][read[place]]
        if document not in numbers or not key.any() or key.all():
            continue
        row = numbers[document]
        for n, values in enumerate(attention[:, place][:, read[place]]):  # [W, C]
            relative[n, row] += values[key].mean(0) - values[~key].mean(0)
            shares = values / np.maximum(values.sum(0), TINY)
            entropy[n, row] -= np.log(np.maximum(shares[key], TINY)).mean(0)
        even[row] += np.log(len(key))
        count[row] += 1
    return HeadSums(relative, entropy, even, count)


def ranking(sums: HeadSums, measure: int = 0) -> Counts:
    """Return cells from the lowest cross-entropy by the `measure` of this number, the best, to the highest `[C]`."""
    return np.argsort(sums.entropy[measure].sum(0), kind="stable")


# How well scores of words find key words.


def best_threshold(scores: Doubles, gold: Mask) -> float:
    """Return the score of words `[N]` from which they are marked for the highest F1; the lowest of several."""
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    right = np.cumsum(gold[order])  # [N]
    f1 = 2 * right / (np.arange(1, len(scores) + 1) + gold.sum())
    f1[:-1][ranked[:-1] == ranked[1:]] = -1  # words of one score are marked together
    return float(ranked[len(f1) - 1 - int(np.argmax(f1[::-1]))])


def f1_of(marks: Mask, gold: Mask) -> float:
    """Return F1 of the marks of words `[N]`."""
    return float(2 * (marks & gold).sum() / max(marks.sum() + gold.sum(), 1))


Score = tuple[float, float, float, Interval | None]
"""Precision, recall and F1 of the marks of all documents together, in percent, and the interval of F1."""


def score(counts: Sequence[tuple[int, int, int]], samples: int, seed: int) -> Score:
    """Score the marks of all documents together, from the correct ones, all marks, and gold marks in each document."""
    table = np.array(counts, float).reshape(-1, 3)
    right, marked, gold = table.sum(0)
    sums = np.vstack((table.sum(0), draw_times(len(table), samples, seed) @ table))  # [1 + R, 3]
    both = sums[:, 1] + sums[:, 2]
    f1 = np.divide(2 * sums[:, 0], both, out=np.zeros(len(sums)), where=both > 0)
    return 100 * float(right / max(marked, 1)), 100 * float(right / max(gold, 1)), 100 * float(f1[0]), percents(f1[1:])


def judge_marks(corpus: Corpus, marks: Mask, options: Keywords) -> tuple[Score, Score]:
    """Compare marks `[N]` of the test part with gold: words, and runs of words with all phrases that the data lists."""
    words, phrases = [], []
    for n in corpus.numbers(TEST):
        document, place = corpus.documents[n], corpus.places[n]
        marked, gold = marks[place], corpus.gold[place]
        words.append((int((marked & gold).sum()), int(marked.sum()), int(gold.sum())))
        marked_phrases = runs(document, marked)
        phrases.append((len(marked_phrases & set(document.phrases)), len(marked_phrases), len(document.phrases)))
    return score(words, options.samples, options.seed), score(phrases, options.samples, options.seed)


def regress(features: Doubles, corpus: Corpus) -> Doubles:
    """Score words as key words with a logistic regression of features `[N, F]`, trained on the training part `[N]`."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    train = corpus.within(TRAIN)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    scores: Doubles = model.fit(features[train], corpus.gold[train]).decision_function(features)
    return scores


def judge(corpus: Corpus, attention: Doubles, sums: HeadSums, options: Keywords) -> dict[str, tuple[Score, Score]]:
    """Judge each method on the test part, with the best threshold of the development part."""
    by_measure = dict(zip(MEASURES, attention, strict=True))
    simple = np.stack((corpus.position_scores(), corpus.tf_idf_scores()), 1)  # [N, 2]
    scores = {"first words": simple[:, 0], "tf-idf": simple[:, 1]}
    for n, (name, values) in enumerate(by_measure.items()):
        scores[f"best head, {name}"] = values[:, ranking(sums, n)[0]]
    scores |= {f"all heads, {name}": regress(values, corpus) for name, values in by_measure.items()}
    scores["first words and tf-idf"] = regress(simple, corpus)
    for name, values in by_measure.items():
        scores[f"with heads, {name}"] = regress(np.hstack((simple, values)), corpus)
    dev = corpus.within(DEV)
    marks = {"gold words": corpus.gold, "every word": np.ones_like(corpus.gold)}
    marks |= {name: values >= best_threshold(values[dev], corpus.gold[dev]) for name, values in scores.items()}
    return {name: judge_marks(corpus, marked, options) for name, marked in marks.items()}


# Fine-tuning.


class Encoder(NamedTuple):
    """An encoder that can be trained."""

    module: Any  # the framework's own module, which contains the encoder
    # returns the pieces of a sentence and the word of each; None if the model cannot take them
    read: Callable[[Sequence[str]], tuple[Sequence[int], Sequence[int]] | None]
    # returns the module's output `[B, S, D]` for ids `[B, S]` and a mask of non-padding pieces `[B, S]`
    vectors: Callable[[Any, Tensor, Tensor], Tensor]
    size: int  # D
    pad: int  # id of padding


def own_encoder(model: Inspected) -> Encoder:
    """Return a copy of a model's encoder as its framework's own module."""

    def run_transformers(encoder: Any, ids: Tensor, mask: Tensor) -> Any:
        return encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state

    if isinstance(model, EncoderModel):
        module = deepcopy(model.model).requires_grad_(True)
        return Encoder(module, model.pieces, run_transformers, module.config.hidden_size, module.config.pad_token_id)
    recorder: Any = model.recorder  # type: ignore[attr-defined]

    def read(words: Sequence[str]) -> tuple[Sequence[int], Sequence[int]] | None:
        pieces = recorder.encode(Pair(tuple(words), (), 0))
        fits = len(pieces.source) <= recorder.max_positions[0] and max(pieces.source_words) >= 0
        return (pieces.source, pieces.source_words) if fits else None

    def run(module: Any, ids: Tensor, mask: Tensor) -> Any:
        if hasattr(module, "get_encoder"):
            return run_transformers(module.get_encoder(), ids, mask)
        return module.encoder(ids, mask.sum(1))["encoder_out"][0].transpose(0, 1)  # fairseq's is [S, B, D]

    module = deepcopy(own_model(recorder)).float().requires_grad_(True)
    size = recorder.transformer.encoder.layers[0].attention_block.out.weight().shape[0]
    return Encoder(module, read, run, size, recorder.pad)


class Sentence(NamedTuple):
    """A sentence as the pieces of an encoder."""

    ids: Sequence[int]  # ids of the pieces
    words: Sequence[int]  # the word of each piece, from 0; SPECIAL for special pieces
    start: int  # position of its first word in the corpus


class Marker(torch.nn.Module):
    """An encoder, whose module is trained, with a linear layer that scores each word as a key word."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder, self.module = encoder, encoder.module
        self.linear = torch.nn.Linear(encoder.size, 1).to(next(encoder.module.parameters()).device)

    def forward(self, sentences: Sequence[Sentence]) -> tuple[Tensor, Tensor]:
        """Return the logits of words `[B, W]`, and which words have a piece `[B, W]`."""
        device = self.linear.weight.device
        ids, words = (
            pad_sequence([torch.tensor(pieces) for pieces in side], batch_first=True, padding_value=pad).to(device)
            for side, pad in (
                ([sentence.ids for sentence in sentences], self.encoder.pad),
                ([sentence.words for sentence in sentences], SPECIAL - 1),
            )
        )
        vectors = self.encoder.vectors(self.module, ids, words >= SPECIAL)  # [B, S, D]
        numbers = torch.arange(int(words.max()) + 1, device=device)  # [W]
        share = (words[:, None] == numbers[:, None]).float()  # [B, W, S]
        mean = share / share.sum(2, keepdim=True).clamp(min=1)  # [B, W, S]
        return self.linear(mean @ vectors)[..., 0], share.any(2)


def read_sentences(corpus: Corpus, split: str, encoder: Encoder) -> list[Sentence]:
    """Return the sentences of a part of the data that an encoder can read."""
    sentences = []
    for n, place, words in sentences_of(corpus):
        if corpus.documents[n].split == split and (pieces := encoder.read(words)):
            sentences.append(Sentence(*pieces, place.start))
    return sentences


def groups_of(sentences: Sequence[Sentence]) -> list[list[Sentence]]:
    """Return sentences in batches of similar length."""
    lengths = [(len(sentence.ids), 0) for sentence in sentences]
    return [[sentences[n] for n in batch] for batch in batches(lengths, BATCH_TOKENS)]


@torch.no_grad()
def predict(marker: Marker, sentences: Sequence[Sentence], size: int) -> Doubles:
    """Return the logit of each of N words of the corpus, of which `size` is the number; -inf for unread words `[N]`."""
    scores = np.full(size, -np.inf)
    marker.eval()
    for group in groups_of(sentences):
        logits, there = (values.numpy(force=True) for values in marker(group))
        for sentence, row, words in zip(group, logits.astype(float), there, strict=True):
            scores[sentence.start + np.flatnonzero(words)] = row[words]
    return scores


def fine_tune(marker: Marker, corpus: Corpus, options: Keywords) -> tuple[list[tuple[float, float]], float]:
    """Train encoder and linear layer together by AdamW, and restore their state after the best epoch.

    The learning rate rises for a tenth of the updates, then falls to 0. Returns the loss of each epoch with its F1 on
    the development part, by which the best is chosen, and the score from which words are marked.
    """
    sentences, dev_sentences = (read_sentences(corpus, split, marker.encoder) for split in (TRAIN, DEV))
    groups = groups_of(sentences)
    device = marker.linear.weight.device
    gold, dev = torch.from_numpy(corpus.gold).float().to(device), corpus.within(DEV)
    weights = [weight for weight in marker.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=options.rate, weight_decay=0.01)
    updates = options.epochs * len(groups)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min((n + 1) / (0.1 * updates), 1 - n / updates))
    numbers = np.random.default_rng(options.seed)
    epochs: list[tuple[float, float]] = []
    best, threshold, best_state = -1.0, 0.0, marker.state_dict()
    for _ in range(options.epochs):
        marker.train()
        total = words = 0.0
        for n in numbers.permutation(len(groups)):
            logits, there = marker(groups[n])  # [B, W]
            starts = torch.tensor([[sentence.start] for sentence in groups[n]], device=device)
            rows, columns = torch.nonzero(there, as_tuple=True)
            loss = binary_cross_entropy_with_logits(logits[rows, columns], gold[starts[rows, 0] + columns])
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_(weights, 1.0)
            optimizer.step()
            schedule.step()
            total += loss.item() * len(rows)
            words += len(rows)
        scores = predict(marker, dev_sentences, len(dev))[dev]
        chosen = best_threshold(scores, corpus.gold[dev])
        epochs.append((total / words, f1_of(scores >= chosen, corpus.gold[dev])))
        if epochs[-1][1] > best:
            best, threshold, best_state = epochs[-1][1], chosen, deepcopy(marker.state_dict())
    marker.load_state_dict(best_state)
    return epochs, threshold


def ablate(
    model: Inspected, corpus: Corpus, ranked: Counts, options: Keywords
) -> tuple[tuple[Score, Score], dict[str, Table], Callable[[], Any]]:
    """Fine-tune a copy of the model's encoder, and mask its heads; `ranked` are its cells, the best first.

    Returns:
        Scores of the best epoch's marks, a table of epochs and one of F1 without some heads, and a figure of that.
    """
    encoder = own_encoder(model)
    with torch.random.fork_rng():
        torch.manual_seed(options.seed)
        marker = Marker(encoder)
        epochs, threshold = fine_tune(marker, corpus, options)
    test, sentences = corpus.within(TEST), read_sentences(corpus, TEST, encoder)
    blocks = [block for block in attention_blocks(encoder.module) if block.part == "encoder"]
    heads = model.shape["encoder"][1]
    order = [AttentionHead("encoder", int(cell) // heads + 1, int(cell) % heads + 1) for cell in ranked]
    removed = sorted({round(len(order) * n / STEPS) for n in range(STEPS + 1)})

    @cache
    def marks(heads: frozenset[AttentionHead]) -> Mask:
        with masked(blocks, heads):
            return test & (predict(marker, sentences, len(test)) >= threshold)

    def curve(order: Sequence[AttentionHead]) -> list[float]:
        return [100 * f1_of(marks(frozenset(order[:count]))[test], corpus.gold[test]) for count in removed]

    numbers = np.random.default_rng(options.seed)
    random = [curve([order[n] for n in numbers.permutation(len(order))]) for _ in range(options.random_orders)]
    curves_of = {"worst first": curve(order[::-1]), "best first": curve(order)}
    rows: list[list[Any]] = [list(row) for row in zip(removed, *curves_of.values(), strict=True)]
    for n, row in enumerate(rows):
        values = [values[n] for values in random]
        row += [np.mean(values), Interval(min(values), max(values))] if values else [None, None]
    if random:
        curves_of["at random"] = np.mean(random, axis=0).tolist()
    lines = {name: np.stack((np.array(removed, float), values), 1) for name, values in curves_of.items()}
    tables = {
        "tuning": make_table(
            "epoch | loss .4 | f1: F1 on dev .1", [[n, loss, 100 * f1] for n, (loss, f1) in enumerate(epochs, 1)]
        ),
        "ablation": make_table(
            "removed: heads masked | worst: worst first .1 | best: best first .1 | random: at random .1 | "
            "range: lowest and highest .1",
            rows,
            "F1 of key words, test part, of the fine-tuned model; order by rank in the model as it was",
        ),
    }
    judged = judge_marks(corpus, marks(frozenset()), options)
    return judged, tables, partial(curves, lines, "heads masked", "F1 of key words, %", "fine-tuned")


# The question.


def keywords(model: Inspected, corpus: Corpus, options: Keywords) -> Finding:
    """Measure which heads attend to key words, how well attention finds them, and which heads fine-tuning needs."""
    shape = need_encoder(model)
    attention, read = read_corpus(model, corpus)
    sums = sum_heads(corpus, attention, read)
    if not sums.sentences.sum() or not all((corpus.gold & corpus.within(split)).any() for split in SPLITS):
        message = "a part of the data has no sentence with key words and other words that the model can read"
        raise DataError(message, file=corpus.file)
    found = judge(corpus, attention, sums, options)
    relative = sums.relative.sum(1) / sums.sentences.sum()  # [2, C]
    panels = {f"relative {symbol}": relative[n].reshape(shape) for n, symbol in enumerate(MEASURES.values())}
    tables = {"data": _data_table(corpus, read), "heads": _head_table(sums, shape[1], options)}
    figures: dict[str, Callable[[], Any]] = {
        "heads": partial(head_maps, panels, [f"layer {n}" for n in range(1, shape[0] + 1)])
    }
    more: dict[str, Table] = {}
    if options.epochs:
        found["fine-tuned"], more, figures["ablation"] = ablate(model, corpus, ranking(sums), options)
    tables["found"] = make_table(
        "by | precision: P .1 | recall: R .1 | f1: F1 .1 | interval: 95 % .1 | phrase_f1: phrases .1 | "
        "phrase_interval: 95 % .1",
        ([name, *words, *phrases[2:]] for name, (words, phrases) in found.items()),
        "words of the test part, from a score on that is chosen on the development part",
        "phrases: F1 of runs of marked words against all phrases that the data lists",
    )
    return Finding(tables | more, figures)


def _data_table(corpus: Corpus, read: Mask) -> Table:
    rows = []
    for split in SPLITS:
        numbers, within = corpus.numbers(split), corpus.within(split)
        phrases = sum(len(corpus.documents[n].phrases) for n in numbers)
        sentences = sum(len(corpus.documents[n].sentences) for n in numbers)
        sizes = [len(numbers), sentences, int(within.sum()), int((within & ~read).sum())]
        found = sum(corpus.found[n] for n in numbers) / max(phrases, 1)
        rows.append([split, *sizes, 100 * corpus.gold[within].mean(), phrases, 100 * found])
    return make_table(
        "part | documents | sentences | words | unread | key: key words, % .1 | phrases | found: found, % .1",
        rows,
        "found: phrases whose words are adjacent in a sentence, in any case",
    )


def _head_table(sums: HeadSums, heads: int, options: Keywords) -> Table:
    count = sums.sentences.sum()
    relative, entropy = sums.relative.sum(1) / count, sums.entropy.sum(1) / count  # [2, C]
    drawn = draw_times(len(sums.sentences), options.samples, options.seed).astype(float)  # [R, D]
    counts = (drawn @ sums.sentences)[:, None]  # [R, 1]
    samples = np.einsum("rd,ndc->nrc", drawn, sums.relative) / np.where(counts, counts, np.nan)  # [2, R, C]
    ranks = np.argsort(ranking(sums)) + 1
    rows = []
    for cell in range(relative.shape[1]):
        measures = [value for n in (0, 1) for value in (relative[n, cell], middle(samples[n, :, cell]))]
        rows.append([cell // heads + 1, cell % heads + 1, *measures, *entropy[:, cell], int(ranks[cell])])
    relative_columns = " | ".join(
        f"relative_{name}: relative {symbol} .3 | interval_{name}: 95 % .3 +" for name, symbol in MEASURES.items()
    )
    entropy_columns = " | ".join(f"entropy_{name}: entropy {symbol} .3" for name, symbol in MEASURES.items())
    return make_table(
        f"layer | head | {relative_columns} | {entropy_columns} | rank",
        rows,
        "relative: attention that key words receive less what others do, in even shares; of the training part",
        f"entropy: cross-entropy, by which a ranks heads; {sums.even.sum() / count:.3f} where all words get the same",
    )


def answer(question: Keywords, request: Request) -> Answer:
    """Answer the question of `extract-align analyse keywords`."""
    need("sklearn", "regressions")
    shown = name_shown(question.keyphrases)
    documents = read_keyphrases(question.keyphrases, shown)
    by_split = {name: [each for each in documents if each.split == name][: question.documents] for name in SPLITS}
    corpus = Corpus([document for part in by_split.values() for document in part], shown)
    model = load_inspected(request)
    return keywords(model, corpus, question), {
        "model": model.name,
        "data": names_of(question.keyphrases),
        **{split: len(part) for split, part in by_split.items()},
        "rate": f"{question.rate:g}" if question.epochs else None,
        "orders": question.random_orders if question.epochs else None,
    }
