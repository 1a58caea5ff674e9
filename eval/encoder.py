"""Measure links from a multilingual encoder: its layers, how states become links, systems, ensembles, speed.

Gold and texts are those of each language in `[encoder]` of experiments.toml, or of one experiment. Tables:

- layers: consistency and agreement, which choose a layer without gold, beside AER; choice: what they choose, also on
  texts without gold, and Spearman's correlation of their product with AER;
- pooling, temperature, variants: other ways from states to links, at the layer that is read;
- systems: the encoder in each arithmetic, and statistical aligners trained on the same pairs alone, or on more text (in
  the encoder's pieces, where that text has no spaces between words);
- adapters, only with --adapter: the encoder with each, and with none, without spaces between words;
- ensembles: models by themselves and averaged with the encoder, with MGIZA's links of pieces, and with both;
- speed, only where it is named: whole programs on text that `-s` and `-t` name, in turn, beside eflomal.

p is that of a paired test against the first row, of systems on text without spaces against --words segmented, and of
ensembles against the model by itself.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from math import prod, sqrt
from pathlib import Path
from statistics import fmean, median
from threading import Event, Thread
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor
from torch.nn import functional

from align import Aligner, Alignment, Pair, load, two_way
from align.baselines.tools import align_with, describe_tool, lower_case
from align.core.scores import PAD, TINY, collate, sharpen, soft_links
from align.core.similarity import CENTRED, TEMPERATURE, SimilarityReader, word_scores
from align.core.stream import BATCH_TOKENS, Encoded, cut, encode
from align.core.symmetrize import mean_links, share_of_directions
from align.core.types import DTYPES, FLOOR, THRESHOLD, Agreement, Batch, Cell, Gold, Links, LinkScores
from align.evaluation.metrics import SAMPLES, SEED, Counts, count_all, estimate
from align.evaluation.tables import Column, Value, interval, percent
from align.io.signature import signature
from align.models.divide import _divide as divide
from align.models.divide import _in_words, align_unspaced, split
from align.models.encoder.model import EncoderRecorder
from align.models.folder import NO_ADAPTER
from align.models.model_toml import ModelOptions
from eval.baselines import Baseline, Baselines
from eval.benchmark import spread
from eval.benchmark_peers import Text as BenchmarkText
from eval.benchmark_peers import run_ours, run_statistical
from eval.common import (
    Text,
    chosen,
    find_experiment,
    path_of,
    read_config,
    read_text,
    read_train,
    score_columns,
    score_row,
    write_table,
)
from eval.programs import Timed, absolute, first_lines, machine
from eval.reproduce import symmetrized

TEMPERATURES = (0.02, 0.03, 0.04, 0.06, 0.1)
"""Of a softmax each way, in place of sharpening."""

TOOLS = ("eflomal", "giza")
"""Statistical aligners that were trained on more text."""

Row = dict[str, Value]


@dataclass(frozen=True)
class Language:
    """Gold of one pair of languages, the text to choose a layer on, and what the models are.

    Attributes:
        name: of the language beside English.
        text: pairs and gold.
        train: what experiments.toml says of the training text.
        unspaced: whether the training text has no spaces between words.
        unlabelled: the first pairs of a training text.
        models: translation models, each with its reverse one.
    """

    name: str
    text: Text
    train: dict[str, Any]
    unspaced: bool
    unlabelled: list[Pair]
    models: list[tuple[str, str]]

    @classmethod
    def read(cls, name: str, config: dict[str, Any], data: Path, lines: int) -> Language:
        """Read what experiments.toml names."""
        about = config["encoder"][name]
        text = read_text(config, about["gold"], data)
        unspaced = "unspaced" in about
        train = config["train"][about["unspaced" if unspaced else "train"]]
        first = list(islice(read_train(train, data, tokenize=False), lines))
        if unspaced:
            first = list(map(by_icu, first))
        models = [
            (path_of(model, data), path_of(reverse, data))
            for model, reverse in zip(about.get("models", ()), about.get("reverse_models", ()), strict=True)
        ]
        return cls(name, text, train, unspaced, first, models)


def by_icu(pair: Pair) -> Pair:
    """Return a pair with the words that ICU's dictionaries find."""
    sides = (" ".join(words) for words in (pair.source, pair.target))
    source, target = (tuple(side[begin:end] for begin, end in split(side, "icu")) for side in sides)
    return Pair(source, target, pair.id)


def in_words(divided: Pair, links: Links) -> Links:
    """Return the links of a pair as words, given those of the units that `align.models.divide` made of it."""
    return _in_words(Alignment(divided, dict.fromkeys(links, 1.0))).links


def load_encoder(model: str, adapter: str | None) -> Aligner:
    """Return an aligner with an encoder and an adapter: a folder, "none", or None for its own."""
    return load(model, options=ModelOptions(adapter=adapter), device="cpu", too_long="blank")


# Ways from states to links.


Found = tuple[LinkScores, Agreement | None]


def sharpened(scores: Tensor) -> Tensor:
    """Return shares as an aligner has them, of word scores `[B, J, I]`."""
    return sharpen(functional.pad(scores, (0, 1)), "mask")


def at_temperature(temperature: float, scores: Tensor) -> Tensor:
    """Return the softmax of cosines over a temperature, of word scores `[B, J, I]`."""
    raised = scores.pow(TEMPERATURE / temperature)
    return raised / raised.sum(-1, keepdim=True).clamp_(min=TINY)


class States(NamedTuple):
    """States of the pieces of a batch, sources `[B, S, D]` and targets `[B, T, D]`, and the words of these pieces."""

    both: tuple[Tensor, Tensor]
    batch: Batch

    def maximum(self) -> Tensor:
        """Return the word scores by the largest cosine of two pieces."""
        source, target = (functional.normalize(states, dim=-1) for states in self.both)
        cosines = target @ source.mT  # [B, T, S]
        sides = (self.batch.source_words, self.batch.words[0]), (self.batch.target_words, self.batch.words[1])
        for words, count in sides:  # the last axis becomes that of words, and then the first
            index = words.masked_fill(words < 0, count)[:, None].expand_as(cosines)
            largest = torch.full((*cosines.shape[:2], count + 1), -torch.inf)
            cosines = largest.scatter_reduce(2, index, cosines, "amax")[..., :-1].mT
        return cosines.sub(1).div(TEMPERATURE).exp()

    def first(self) -> Tensor:
        """Return the word scores by each word's first piece."""
        return word_scores(
            self.both,
            replace(
                self.batch, source_words=_firsts(self.batch.source_words), target_words=_firsts(self.batch.target_words)
            ),
        )

    def mean(self, centred: float = CENTRED) -> Tensor:
        """Return the word scores as an aligner has them, with a part of the pair's mean taken off."""
        return word_scores(self.both, self.batch, centred)


def _firsts(words: Tensor) -> Tensor:
    """Return the words of pieces, with only the first piece of each word left."""
    same = functional.pad(words[:, 1:] == words[:, :-1], (1, 0))
    return words.masked_fill(same, PAD)


class Way(NamedTuple):
    """How states become shares of words: layers whose mean state is read, scores, and shares of these."""

    layers: tuple[int, ...]
    scores: Callable[[States], Tensor] = States.mean
    shares: Callable[[Tensor], Tensor] = sharpened


@torch.inference_mode()
def read_links(
    recorder: EncoderRecorder, encoded: Sequence[Encoded], ways: Mapping[str, Way]
) -> dict[str, list[Found]]:
    """Return the links and the agreement of each pair, in each way."""
    layers = sorted({layer for way in ways.values() for layer in way.layers})
    found: dict[str, list[Found]] = {name: [({}, None)] * len(encoded) for name in ways}
    for numbers, batch in cut(encoded, BATCH_TOKENS):
        collated = collate(batch, recorder.pad)
        states = dict(zip(layers, recorder.states(collated, layers), strict=True))
        for name, way in ways.items():
            sides = zip(*(states[layer] for layer in way.layers), strict=True)
            source, target = (torch.stack(side).mean(0) for side in sides)
            scores = way.scores(States((source, target), collated))
            links = soft_links(way.shares(scores), way.shares(scores.mT), THRESHOLD, batch, None)
            for number, of_pair in zip(numbers, links, strict=True):
                found[name][number] = of_pair
    return found


def count_links(links: Iterable[Iterable[tuple[int, int]]], gold: Sequence[Gold]) -> Counts:
    """Return the counts of links `[N, 4]`."""
    return count_all([frozenset(of_pair) for of_pair in links], gold)


class Encoder:
    """An encoder, the text of each language, and where its tables are written.

    It reads all texts at one layer: its own, or the one that it chooses on the first language's gold text.

    Args:
        adapter: of the encoder: a folder, "none", or None for its own.
    """

    def __init__(
        self,
        model: str,
        languages: Sequence[Language],
        baselines: Baselines,
        output: Path,
        name: str = "encoder",
        adapter: str | None = None,
    ) -> None:
        self.model, self.languages, self.baselines, self.output, self.name = model, languages, baselines, output, name
        self.adapter = adapter
        aligner = load_encoder(model, adapter)
        recorder = aligner.forward.recorder
        if not isinstance(recorder, EncoderRecorder):
            raise ValueError(f"expected an encoder; got {recorder.name}")
        choice = chosen(aligner, languages[0].text.pairs)
        (cell,) = choice.place.cells().values()
        self.recorder, self.aligner, self.layer = recorder, aligner.reading_at([choice]), cell.layer

    def encoded(self, pairs: Sequence[Pair], recorder: EncoderRecorder | None = None) -> list[Encoded]:
        """Return pairs with their pieces."""
        return [encode(recorder or self.recorder, pair, "blank") for pair in pairs]

    def counts(self, ways: Mapping[str, Way], recorder: EncoderRecorder | None = None) -> dict[str, dict[str, Counts]]:
        """Return the counts of each way, by language."""
        found: dict[str, dict[str, Counts]] = {name: {} for name in ways}
        for language in self.languages:
            of_language = read_links(recorder or self.recorder, self.encoded(language.text.pairs, recorder), ways)
            for name, links in of_language.items():
                found[name][language.name] = count_links((of_pair for of_pair, _ in links), language.text.gold)
        return found

    def write_rates(
        self, table: str, key: str, counts: Mapping[str, Mapping[str, Counts]], unspaced: str = "", **parts: Any
    ) -> None:
        """Write a table of error rates on all sets: a row for each name, compared with the first.

        Those of text without spaces are compared with the row of the name `unspaced`, if there is one.
        """
        columns, rows = [Column(key, key)], []
        for language in self.languages:
            columns += [
                column._replace(key=_named(column.key, language), wide=language is not self.languages[0])
                for column in score_columns(language.text)
                if column.key not in ("precision", "recall")
            ]
        first = next(iter(counts))
        for name, of_name in counts.items():
            row: Row = {key: name}
            for language in self.languages:
                row |= {column.key: None for column in columns if column.key not in row}
                if language.name in of_name:
                    reference = unspaced if unspaced and language.unspaced else first
                    base = None if name == reference else counts[reference][language.name]
                    scored = score_row(of_name[language.name], language.text, base)
                    row |= {_named(which, language): value for which, value in scored.items()}
            rows.append({column.key: row[column.key] for column in columns})
        self.write(table, columns, rows, **parts)

    def write(self, table: str, columns: Sequence[Column], rows: Sequence[Row], **parts: Any) -> None:
        """Write a table with its signature."""
        about: dict[str, Any] = {"model": [self.recorder.name, *parts.pop("models", ())], **parts}
        about |= {"ci": f"percentile-{SAMPLES}", "seed": str(SEED)}
        write_table(columns, rows, signature(about, self.name), self.output / f"{self.name}.{table}.tsv")

    # Tables.

    def adapters(self, adapters: Sequence[tuple[str, str]]) -> None:
        """Write error rates of the encoder with each adapter, in words without spaces between them."""
        counts: dict[str, dict[str, Counts]] = {}
        models = []
        for name, adapter in (("none", NO_ADAPTER), *adapters):
            aligner = load_encoder(self.model, adapter)
            counts[name] = self._segmented(aligner)
            models.append(f"{name}={aligner.forward.recorder.name}")
        self.write_rates("adapters", "adapter", counts, models=models)

    def _segmented(self, aligner: Aligner) -> dict[str, Counts]:
        return {
            language.name: count_links(
                (a.links for a in align_unspaced(aligner, language.text.pairs, "segmented")), language.text.gold
            )
            for language in self.languages
        }

    def layers(self) -> None:
        """Write what chooses a layer beside error rates, and what it chooses."""
        with_gold = {of.name: self._layers_of(of, of.text.pairs, of.text.gold) for of in self.languages}
        without = {of.name: self._layers_of(of, of.unlabelled) for of in self.languages}
        rows = [row for of_kind in (with_gold, without) for of_text in of_kind.values() for row in of_text]
        choices = [_choice(some[0]["text"], some) for some in with_gold.values()]
        choices.append(_choice("all gold", *with_gold.values()))
        choices += [_choice(some[0]["text"], some) for some in without.values()]
        choices.append(_choice("all training text", *without.values()))
        columns = [Column("text", "text"), Column("pairs", "pairs"), Column("layer", "layer")]
        columns += [Column(key, key, 4) for key in ("consistency", "agreement", "product")]
        columns += [Column("aer", "AER", 2), Column("interval", "95 % CI", 1)]
        self.write("layers", columns, rows)
        columns = [Column("text", "text"), Column("chosen", "chosen"), Column("aer", "AER", 2)]
        columns += [Column("best", "best by gold"), Column("aer_best", "AER", 2), Column("rho", "rho with AER", 3)]
        self.write("choice", columns, choices)

    def _layers_of(self, language: Language, pairs: Sequence[Pair], gold: Sequence[Gold] = ()) -> list[Row]:
        """Return a row for each layer."""
        numbers = range(1, self.recorder.layers + 1)
        encoded = self.encoded(pairs)
        read = [item for item in encoded if item.pieces]
        qualities = SimilarityReader(self.recorder).qualities(read, [Cell(n, "all") for n in numbers])
        found = read_links(self.recorder, encoded, {str(n): Way((n,)) for n in numbers})
        rows: list[Row] = []
        name = f"{language.name}, {'gold' if gold else 'training text'}"
        for n, quality in zip(numbers, qualities.tolist(), strict=True):
            agreed = fmean(sqrt(a[0] * a[1]) for _, a in found[str(n)] if a)
            row: Row = {"text": name, "pairs": len(read), "layer": n}
            row |= {"consistency": quality / agreed, "agreement": agreed, "product": quality}
            if gold:
                value, low, high = map(percent, estimate(count_links((links for links, _ in found[str(n)]), gold)))
            else:
                value = low = high = None
            rows.append(row | {"aer": value, "interval": interval(low, high)})
        return rows

    def pooling(self) -> None:
        """Write error rates of other ways to make one vector of the pieces of a word."""
        names: dict[str, Callable[[States], Tensor]] = {
            "mean": States.mean,
            "mean, not centred": partial(States.mean, centred=0),
            "maximum": States.maximum,
            "first piece": States.first,
        }
        layers = (self.layer, max(1, self.layer - 1))
        ways = {
            f"{name}, layer {n}": Way((n,), scores) for n in dict.fromkeys(layers) for name, scores in names.items()
        }
        self.write_rates("pooling", "pooling", self.counts(ways))

    def temperature(self) -> None:
        """Write error rates with one temperature for all pairs, beside sharpening."""
        ways = {"sharpened": Way((self.layer,))}
        ways |= {f"{t:g}": Way((self.layer,), shares=partial(at_temperature, t)) for t in TEMPERATURES}
        self.write_rates("temperature", "temperature", self.counts(ways), layer=self.layer)

    def variants(self) -> None:
        """Write error rates of other ideas."""
        before, layer = layers = max(1, self.layer - 1), self.layer
        ways = {
            "as it is": Way((layer,)),
            f"layer {before}": Way((before,)),
            f"mean of layers {before} and {layer}": Way(layers),
            "not centred": Way((layer,), partial(States.mean, centred=0)),
            f"not centred, layer {before}": Way((before,), partial(States.mean, centred=0)),
            "less all of the mean state": Way((layer,), partial(States.mean, centred=1)),
        }
        counts = self.counts(ways)
        options = ModelOptions(source_prefix="", adapter=self.adapter)
        bare = load(self.model, device="cpu", too_long="blank", options=options)
        assert isinstance(bare.forward.recorder, EncoderRecorder)
        counts |= self.counts({"without prefix": Way((self.layer,))}, bare.forward.recorder)
        self.write_rates("variants", "variant", counts, layer=self.layer)

    def systems(self) -> None:
        """Write error rates of the encoder and of statistical aligners."""
        counts: dict[str, dict[str, Counts]] = {}
        for dtype in DTYPES:
            aligner = load(self.model, layer=self.layer, device="cpu", too_long="blank", dtype=dtype)
            counts[f"{self.model}, {dtype}"] = {
                language.name: count_links((a.links for a in aligner(language.text.pairs)), language.text.gold)
                for language in self.languages
            }
        segmented = f"{self.model}, --words segmented"
        counts[segmented] = self._segmented(self.aligner)
        plain = load_encoder(self.model, NO_ADAPTER)
        if plain.forward.recorder.name != self.recorder.name:
            counts[f"{self.model}, --adapter none"] = {
                language.name: count_links((a.links for a in plain(language.text.pairs)), language.text.gold)
                for language in self.languages
            }
            counts[f"{self.model}, --adapter none --words segmented"] = self._segmented(plain)
        tools = [describe_tool("eflomal")]
        for language in self.languages:
            links = list(align_with("eflomal", map(lower_case, language.text.pairs)))
            self._add(counts, "eflomal on these pairs", language, links)
            for tool in TOOLS:
                try:
                    baseline = self._baseline(tool, language)
                except ModuleNotFoundError as error:
                    print(f"{tool} ({language.name}) is left out: {error}", file=sys.stderr)
                    continue
                tools = list(dict.fromkeys([*tools, baseline.tool]))
                self._add(counts, f"{tool} on more text", language, baseline.links)
        self.write_rates("systems", "system", counts, segmented, tool=tools, layer=self.layer)

    def _baseline(self, tool: str, language: Language) -> Baseline:
        """Return the links of a statistical aligner trained on more text: of pieces, if that text has no spaces."""
        if not language.unspaced:
            return self.baselines.align(tool, language.train, language.text)
        divided = [divide([(self.recorder, 1)], pair, "segmented") for pair in language.text.pairs]
        text = replace(language.text, pairs=divided)
        found = self.baselines.align(tool, language.train, text, self.recorder.encode)
        of_units = zip(divided, found.links, strict=True)
        return found._replace(links=[(in_words(pair, both[0]), in_words(pair, both[1])) for pair, both in of_units])

    @staticmethod
    def _add(
        counts: dict[str, dict[str, Counts]], name: str, language: Language, links: Sequence[tuple[Links, Links]]
    ) -> None:
        for method, merged in symmetrized(links).items():
            counts.setdefault(f"{name}: {method}", {})[language.name] = count_links(merged, language.text.gold)

    def ensembles(self) -> None:
        """Write error rates of models, and of their means with the encoder and with MGIZA."""
        for language in self.languages:
            if language.models:
                self._ensembles(language)

    def _ensembles(self, language: Language) -> None:
        pairs, names = language.text.pairs, dict[str, None]()
        voices = {"encoder": soft_scores(self.aligner, pairs)}
        rows: list[Row] = []
        tools: list[str] = []
        for aligner, name in models_of(language.models):
            try:
                recorder = aligner.forward.recorder
                baseline = self.baselines.align("giza", language.train, language.text, recorder.encode)
                voices["giza, pieces"] = [share_of_directions(*both) for both in baseline.links]
                tools = list(dict.fromkeys([*tools, baseline.tool]))
            except ModuleNotFoundError as error:
                voices.pop("giza, pieces", None)
                print(f"giza on the pieces of {name} is left out: {error}", file=sys.stderr)
            soft, alone = soft_scores(aligner, pairs), None
            for group in ((), *((voice,) for voice in voices), *([tuple(voices)] if len(voices) > 1 else [])):
                means = (mean_links(each, THRESHOLD) for each in zip(soft, *(voices[v] for v in group), strict=True))
                counts = count_links(means, language.text.gold)
                scored = score_row(counts, language.text, alone)
                rows.append({"model": name, "with": " and ".join(group) or "nothing", **scored})
                alone = counts if alone is None else alone
            names |= dict.fromkeys(direction.recorder.name for direction in aligner.directions)
        columns = [Column("model", "model"), Column("with", "mean with"), *score_columns(language.text)]
        table = "ensembles" if language is self.languages[0] else f"ensembles.{language.name}"
        self.write(table, columns, rows, layer=self.layer, models=[*names], tool=tools, threshold=f"{THRESHOLD:g}")


def _named(key: str, language: Language) -> str:
    """Return the key of a column where there are several languages."""
    return f"p_{language.name}" if key == "p" else key.replace("_all", f"_{language.name}")


def _choice(text: Value, *of_texts: Sequence[Row]) -> Row:
    """Return the layer that the product of texts chooses, and for one with gold what gold would choose."""
    products = [prod(float(str(row["product"])) for row in of_layer) for of_layer in zip(*of_texts, strict=True)]
    rates = [row["aer"] for row in of_texts[0]] if len(of_texts) == 1 else []
    known = [rate for rate in rates if isinstance(rate, float)]
    chosen = int(np.argmax(products))
    row: Row = {"text": text, "chosen": chosen + 1, "aer": None, "best": None, "aer_best": None, "rho": None}
    if known:
        row |= {"aer": known[chosen], "best": int(np.argmin(known)) + 1, "aer_best": min(known)}
        row["rho"] = float(spearmanr(products, known)[0])
    return row


def models_of(models: Sequence[tuple[str, str]]) -> Iterator[tuple[Aligner, str]]:
    """Yield each model, also without the link scorer, and both directions, with their names."""
    for forward, reverse in models:
        name, back = (Path(path).name for path in (forward, reverse))
        one = load(forward, device="cpu", too_long="blank")
        yield one, name
        yield replace(one, forward=replace(one.forward, scorer=None)), f"{name} without scorer"
        yield two_way(one, load(reverse, device="cpu", too_long="blank")), f"{name} and {back}"


def soft_scores(aligner: Aligner, pairs: Sequence[Pair]) -> list[LinkScores]:
    """Return the soft scores of each pair."""
    settings = replace(aligner.forward.settings, threshold=FLOOR)
    reading = replace(aligner, forward=replace(aligner.forward, settings=settings), threshold=FLOOR)
    return [dict(alignment.scores) for alignment in reading(pairs)]


# Speed.


class Run(NamedTuple):
    """A run of a program: its times, peak memory in MB, and how many cores other programs kept busy meanwhile."""

    timed: Timed
    peak: float
    others: float


def _busy() -> float:
    """Return the processor time of all programs since the machine started, in seconds."""
    user, nice, system, _, _, *more = map(
        int, Path("/proc/stat").read_text(encoding="ascii").split("\n")[0].split()[1:9]
    )
    return (user + nice + system + sum(more)) / os.sysconf("SC_CLK_TCK")


def _memory(process: int) -> float:
    """Return the resident memory of what a process has started, in MB."""
    total = 0.0
    with suppress(OSError):  # it may just have ended
        for task in Path(f"/proc/{process}/task").iterdir():
            for child in map(int, (task / "children").read_text(encoding="ascii").split()):
                pages = int(Path(f"/proc/{child}/statm").read_text(encoding="ascii").split()[1])
                total += pages * os.sysconf("SC_PAGE_SIZE") / 1e6 + _memory(child)
    return total


def measure(run: Callable[[], Timed]) -> Run:
    """Run a program, and look at its memory and at what else runs; on Linux."""
    done, peak = Event(), 0.0

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.2):
            peak = max(peak, _memory(os.getpid()))

    watcher = Thread(target=watch)
    before = _busy()
    watcher.start()
    try:
        timed = run()
    finally:
        done.set()
        watcher.join()
    return Run(timed, peak, max(0.0, (_busy() - before - timed.cpu) / timed.seconds))


def speed(model: str, texts: tuple[str, str], lines: int, rounds: int, threads: int, output: Path) -> None:
    """Measure whole programs in turn, beside eflomal; print and write what is known after each round."""
    known: dict[str, Callable[[BenchmarkText], Timed]] = {"eflomal": partial(run_statistical, "eflomal")}
    for dtype in DTYPES:
        known[f"{model}, {dtype}"] = partial(run_ours, ["-m", absolute(model), "--dtype", dtype])
    names = list(known)
    runs: dict[str, list[Run]] = {name: [] for name in names}
    columns = [Column("system", "system"), Column("seconds", "s", 1), Column("rate", "lines/s", 0)]
    columns += [Column("ratio", "times eflomal"), Column("spread", "min–max"), Column("peak", "peak, MB", 0)]
    columns += [Column("others", "other cores busy", 2)]
    with tempfile.TemporaryDirectory(prefix="align-") as name:
        files = first_lines(*texts, lines, Path(name))
        text = BenchmarkText(lines, files, threads, Path(name))
        for number in range(rounds):
            turn = number % len(names)
            for system in names[turn:] + names[:turn]:
                runs[system].append(measure(partial(known[system], text)))
                print(f"round {number + 1}, {system}: {runs[system][-1].timed.seconds:.1f} s", file=sys.stderr)
            rows = [_speed_row(system, found, runs["eflomal"], lines) for system, found in runs.items()]
            about = f"-s {Path(texts[0]).name} -t {Path(texts[1]).name} --lines {lines} --rounds {number + 1}"
            tools = f"{describe_tool('eflomal')}, {load(model, device='cpu').forward.recorder.name}"
            sign = f"python eval/run.py encoder speed {about}; {tools}; {machine(threads)}; medians over rounds"
            write_table(columns, rows, sign, output / "encoder.speed.tsv")


def _speed_row(system: str, found: Sequence[Run], base: Sequence[Run], lines: int) -> Row:
    seconds = median(run.timed.seconds for run in found)
    ratio, ends = spread([one.timed.seconds / other.timed.seconds for one, other in zip(found, base, strict=True)])
    row: Row = {"system": system, "seconds": seconds, "rate": lines / seconds, "ratio": ratio, "spread": ends}
    return row | {"peak": max(run.peak for run in found), "others": max(run.others for run in found)}


TABLES: dict[str, Callable[[Encoder], None]] = {
    "layers": Encoder.layers,
    "pooling": Encoder.pooling,
    "temperature": Encoder.temperature,
    "variants": Encoder.variants,
    "systems": Encoder.systems,
    "ensembles": Encoder.ensembles,
}
"""What writes each table; "speed" and "adapters" have their own functions."""

PLAIN = ("layers", "pooling", "temperature", "variants")
"""Tables of the encoder without an adapter."""


def run(
    tables: Sequence[str],
    data: Path,
    config: Path,
    experiment: str | None,
    model: str,
    adapter: Sequence[str],
    baseline_links: Path | None,
    unlabelled: int,
    source: str | None,
    target: str | None,
    lines: int,
    rounds: int,
    threads: int,
    output: Path,
) -> None:
    """Measure, print, write.

    Raises:
        ArgumentError: there is no such experiment.
        ValueError: there is no such table, or the model is not an encoder.
    """
    known = (*TABLES, "speed", "adapters")
    for name in tables:
        if name not in known:
            raise ValueError(f"tables are {', '.join(known)}; got {name!r}")
    wanted = tables or list(TABLES)
    compared = [(label, folder) for label, _, folder in (each.partition("=") for each in adapter)]
    named = all(folder and label != NO_ADAPTER for label, folder in compared)
    if bool(compared) != ("adapters" in wanted) or not named:
        raise ValueError("--adapter NAME=FOLDER and the table adapters need each other; the name is not none")
    if rest := [name for name in wanted if name != "speed"]:
        settings = read_config(config)
        if experiment:
            about = find_experiment(settings, experiment)
            settings["encoder"] = {experiment: about | {"train": about["train"][0]}}
        languages = [Language.read(name, settings, data, unlabelled) for name in settings["encoder"]]
        name = f"{experiment}_encoder" if experiment else "encoder"
        for table in rest:
            own = NO_ADAPTER if table in (*PLAIN, "adapters") else None
            encoder = Encoder(model, languages, Baselines(data, baseline_links), output, name, own)
            if table == "adapters":
                encoder.adapters(compared)
            else:
                TABLES[table](encoder)
    if "speed" in wanted:
        files = source or str(data / "train.de"), target or str(data / "train.en")
        speed(model, files, lines, rounds, threads, output)
