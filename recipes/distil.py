"""Distil translation models, an encoder and MGIZA into a small model that only aligns; it can be interrupted.

    .venv/bin/python -m recipes.distil FOLDER --data DATA [--reverse]

The student begins as a part of the first model: the lower encoder layers, and the first decoder layer up to the most
consistent head of its cross-attention; or, with --begin, as another student. Its decoder has no causal mask, since it
predicts nothing: it reads the whole target sentence. It is trained so that its soft scores in the input position, by
the norms of that head, equal the labels of `recipes/labels.py`. The loss is the binary cross-entropy of each pair of
words. Gold is not used, and pairs that are in a gold set are left out. The loss on the first --held-out pairs, which it
is not trained on (but a student to begin with may have been), is printed at the end. Matrix products of the training
are in bfloat16, on CPUs without instructions for it in float32.

Labels of 10,000 pairs at a time and the state of the training are kept in the folder: the same command goes on, and
other options need another folder. The
result is `forward/model` or `reverse/model` in it, a model folder for `extract-align -m`.
"""

from __future__ import annotations

import argparse
import io
import math
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from align import Direction, Pair, load
from align.core.backend import Recorder
from align.core.choice import Calibration, consistency_of
from align.core.consistency import CHOOSING_PAIRS
from align.core.scores import ALONE, PAD, SHARPNESS, TINY, around, merge_sources, merge_targets
from align.core.scores import _powers as powers
from align.core.stream import BUFFER, batches, encode
from align.core.types import Batch, Cell, LinkScores
from align.models.engine.builder import KEPT
from align.models.engine.forward import Sinusoids
from align.models.engine.linear import multiplies_bfloat16
from align.models.fairseq.architecture import DISTILLED
from align.models.fairseq.checkpoint import load_checkpoint, model_settings, saved_settings
from align.models.fairseq.dictionary import PAD as PAD_ID
from align.models.folder import ModelFolder
from align.models.model_toml import ModelOptions, format_model_toml
from align.models.recorder import ModelRecorder
from eval.common import find_experiment, read_config, swapped
from recipes.labels import add_teachers, labels_of, parser_of, teachers_of, training_pairs, write_teachers

POOL = 8_000
"""Pairs that are sorted by length to be cut into batches."""

STORED_EVERY = 60
"""Seconds after which the state of the training is stored again."""

Array = np.ndarray[Any, Any]


class Labelled(NamedTuple):
    """Pairs in pieces, with the soft scores that the student is to give their words; one array after another.

    Attributes:
        sizes: of each pair, its source and target pieces, its source and target words, and its labels `[N, 5]`.
        source: ids of all source pieces `[sum S]`.
        source_words: their words.
        target: ids of all target pieces `[sum T]`.
        target_words: their words.
        links: source and target word of each label `[L, 2]`.
        scores: of each label, in 255ths `[L]`.
    """

    sizes: Array
    source: Array
    source_words: Array
    target: Array
    target_words: Array
    links: Array
    scores: Array


class Student:
    """The part of a fairseq Transformer that aligns, with trainable weights.

    Args:
        teacher: weights of the model that it is cut from, by their names in fairseq.
        layers: of the encoder.
        heads: H, of all attention.
        head: the head of the cross-attention that remains, from 0.
        start: id that the decoder reads first.
        dropout: share of values that are set to 0.
        device: of the weights.
    """

    def __init__(
        self, teacher: dict[str, Tensor], layers: int, heads: int, head: int, start: int, dropout: float, device: str
    ) -> None:
        self._layers, self._heads, self._start, self.dropout = layers, heads, start, dropout
        self.head = head
        prefixes = [f"encoder.layers.{n}." for n in range(layers)]
        prefixes += ["encoder.embed_tokens.", "decoder.embed_tokens.", "decoder.layers.0.self_attn"]
        self.weights = {
            name: weight.float().clone() for name, weight in teacher.items() if name.startswith(tuple(prefixes))
        }
        self.width = self.weights["encoder.embed_tokens.weight"].shape[1]
        size = self.width // heads
        cross = "decoder.layers.0.encoder_attn."
        heads_here = teacher.get(f"{cross}{KEPT}", torch.arange(heads)).tolist()  # a student has one head
        of_head = slice(heads_here.index(head) * size, (heads_here.index(head) + 1) * size)
        for part in "qkv":
            for kind in ("weight", "bias"):
                name = f"{cross}{part}_proj.{kind}"
                self.weights[name] = teacher[name].float()[of_head].clone()
        self.weights[f"{cross}out_proj.weight"] = teacher[f"{cross}out_proj.weight"].float()[:, of_head].clone()
        self.weights = {name: weight.to(device).requires_grad_() for name, weight in self.weights.items()}
        self._positions = Sinusoids(self.width, PAD_ID + 1, device)

    def loss(self, batch: Batch, labels: Tensor, real: Tensor) -> Tensor:
        """Return the loss of a batch; see `Trainable`."""
        shares = self.shares(batch)
        return cross_entropy(soft(shares, shares), labels, real)

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return functional.linear(x, self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias"))

    def _norm(self, x: Tensor, name: str) -> Tensor:
        weight = self.weights[f"{name}.weight"]
        return functional.layer_norm(x, weight.shape, weight, self.weights[f"{name}.bias"])

    def _drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.dropout)

    def _embed(self, ids: Tensor, side: str) -> Tensor:
        vectors = functional.embedding(ids, self.weights[f"{side}.embed_tokens.weight"]) * math.sqrt(self.width)
        return self._drop(vectors + self._positions(ids.shape[1])[: ids.shape[1]])

    def _attend(self, x: Tensor, name: str, own: Tensor) -> Tensor:
        """Return the output of a layer's self-attention with its residual and layer norm `[B, L, D]`.

        `own` is true for pieces, and false for pads `[B, L]`.
        """
        query, key, value = (
            self._linear(x, f"{name}.self_attn.{part}_proj").view(*x.shape[:2], self._heads, -1).transpose(1, 2)
            for part in "qkv"
        )
        # for sentences of usual lengths, on a CPU, this is faster than torch's attention, whose backward pass is slow
        scores = (query * query.shape[-1] ** -0.5) @ key.mT
        weights = scores.masked_fill(~own[:, None, None], float("-inf")).softmax(-1)
        context = weights.to(value.dtype) @ value
        out = self._linear(context.transpose(1, 2).flatten(2), f"{name}.self_attn.out_proj")
        return self._norm(x + self._drop(out), f"{name}.self_attn_layer_norm")

    def _encode(self, ids: Tensor, own: Tensor) -> Tensor:
        x = self._embed(ids, "encoder")
        for number in range(self._layers):
            name = f"encoder.layers.{number}"
            x = self._attend(x, name, own)
            inner = self._linear(self._linear(x, f"{name}.fc1").relu(), f"{name}.fc2")
            x = self._norm(x + self._drop(inner), f"{name}.final_layer_norm")
        return x

    def shares(self, batch: Batch) -> Tensor:
        """Return the sharpened shares of B pairs `[B, J, I]`, as `align.core.scores` computes them from norms.

        In training, matrix products up to the cross-attention are in bfloat16 where that takes less time.
        """
        own = batch.source_words != PAD
        steps = functional.pad(batch.target, (1, 0), value=self._start)
        read = functional.pad(batch.target_words != PAD, (1, 0), value=True)
        fast = torch.is_grad_enabled() and multiplies_bfloat16(own.device.type)
        with torch.autocast(own.device.type, torch.bfloat16, enabled=fast):
            source = self._encode(batch.source, own).float()
            target = self._attend(self._embed(steps, "decoder"), "decoder.layers.0", read)[:, 1:].float()
        cross = "decoder.layers.0.encoder_attn"
        query = self._linear(target, f"{cross}.q_proj") * (self.width // self._heads) ** -0.5
        scores = query @ self._linear(source, f"{cross}.k_proj").mT  # [B, T, S]
        weights = scores.masked_fill(~own[:, None], float("-inf")).softmax(-1)
        norms = self._linear(self._linear(source, f"{cross}.v_proj"), f"{cross}.out_proj").norm(dim=-1)  # [B, S]
        cells = (weights * norms[:, None])[:, None]
        merged = merge_sources(cells, batch.source_words, batch.words[0]).clamp(min=0)
        return sharp(merge_targets(merged, batch.target_words, batch.words[1])[:, 0])


def sharp(rows: Tensor) -> Tensor:
    """Return the sharpened shares of word scores `[B, J, I+1]`, through which gradients can pass.

    They are those of `sharpen` in `align.core.scores`; the power of a pair counts as a constant.
    """
    top = rows.amax(-1, keepdim=True)
    scored = top >= TINY
    logs = (rows / top.clamp(min=TINY)).clamp(min=1e-20).log()
    with torch.no_grad():
        power = powers(logs.masked_fill(~scored, 0), scored[..., 0], SHARPNESS)
    raised = (logs * power[:, None, None]).exp() * scored
    forward = (raised[..., :-1] / raised.sum(-1, keepdim=True).clamp(min=TINY)).clamp(min=1e-7)
    return forward * (rows[..., :-1] > 0)


def soft(forward: Tensor, reverse: Tensor) -> Tensor:
    """Return the soft scores of both directions' shares, which for one model are the same; see `align.core.scores`."""
    product = forward * reverse
    return claims(product * (around(claims(product)) + ALONE).sqrt())


def claims(products: Tensor) -> Tensor:
    """Return the geometric mean of each product's shares of its row and of its column `[B, J, I]`.

    `align.core.scores.claims` works in place, through which gradients do not pass.
    """
    both = products.sum(2, keepdim=True) * products.sum(1, keepdim=True)
    return products / both.clamp(min=1e-24).sqrt()


def read_labelled(labelled: Iterable[tuple[Pair, LinkScores]], recorder: Recorder, reverse: bool = False) -> Labelled:
    """Return the pairs that the model can read, with their labels.

    `reverse` tells that the pairs are swapped, unlike their labels.
    """
    parts: list[list[Any]] = [[] for _ in Labelled._fields]
    for pair, labels in labelled:
        pieces = encode(recorder, pair, "blank").pieces
        if pieces and labels:
            parts[0].append((len(pieces.source), len(pieces.target), *pieces.words, len(labels)))
            for part, values in zip(
                parts[1:5], (pieces.source, pieces.source_words, pieces.target, pieces.target_words), strict=True
            ):
                part += values
            parts[5] += [link[::-1] if reverse else link for link in labels]
            parts[6] += [round(255 * score) for score in labels.values()]
    kinds = (np.int16, np.int32, np.int16, np.int32, np.int16, np.uint8, np.uint8)
    return Labelled(*(np.array(part, kind) for part, kind in zip(parts, kinds, strict=True)))


def split(pairs: Labelled, first: int) -> tuple[Labelled, Labelled]:
    """Return the first pairs, and the others.

    Raises:
        ValueError: there are no others.
    """
    if len(pairs.sizes) <= first:
        raise ValueError(f"expected more than {first:,} pairs that the model can read; got {len(pairs.sizes):,}")
    source, target, *_, labels = pairs.sizes[:first].sum(0, dtype=np.int64).tolist()
    ends = (first, source, source, target, target, labels, labels)
    return (
        Labelled(*(values[:end] for values, end in zip(pairs, ends, strict=True))),
        Labelled(*(values[end:] for values, end in zip(pairs, ends, strict=True))),
    )


def leading_head(direction: Direction, pairs: Sequence[Pair]) -> int:
    """Return the head of the first decoder layer that is most consistent in the input position, from 0."""
    encoded = [item for pair in pairs if (item := encode(direction.recorder, pair, "blank")).pieces]
    cells = [Cell(1, head) for head in range(1, direction.recorder.heads + 1)]
    consistency = consistency_of(direction.reader, encoded[:CHOOSING_PAIRS], {"input": cells})["input"]
    return int(consistency.argmax())


def shuffled_batches(sizes: Array, tokens: int, numbers: Random) -> Iterator[list[int]]:
    """Yield the numbers of pairs in batches of similar length, in random order, without end."""
    lengths = [(source, target) for source, target, *_ in sizes.tolist()]
    while True:
        order = list(range(len(lengths)))
        numbers.shuffle(order)
        of_pools = []
        for begin in range(0, len(order), POOL):
            pool = order[begin : begin + POOL]
            of_pools += [[pool[n] for n in batch] for batch in batches([lengths[n] for n in pool], tokens)]
        numbers.shuffle(of_pools)
        yield from of_pools


class Batches:
    """Yields random batches with their labels, on a device.

    Args:
        pad: id of the pad.
        tokens: limit of pairs times pieces of the longest side.
    """

    def __init__(self, pairs: Labelled, pad: int, tokens: int, device: str) -> None:
        self._pairs, self._pad, self._tokens, self._device = pairs, pad, tokens, device
        ends = pairs.sizes.cumsum(0, dtype=np.int64)
        self._begins = ends - pairs.sizes

    def __call__(self, seed: int) -> Iterator[tuple[Batch, Tensor, Tensor]]:
        """Yield batches, their labels `[B, J, I]`, and which of these belong to words."""
        for numbers in shuffled_batches(self._pairs.sizes, self._tokens, Random(seed)):
            yield self._collate(np.array(numbers))

    def once(self) -> Iterator[tuple[Batch, Tensor, Tensor]]:
        """Yield the same for all pairs once."""
        for numbers in batches(self._pairs.sizes[:, :2].tolist(), self._tokens):
            yield self._collate(np.array(numbers))

    def _collate(self, numbers: Array) -> tuple[Batch, Tensor, Tensor]:
        pairs = self._pairs
        sizes, begins = pairs.sizes[numbers].astype(np.int64), self._begins[numbers]
        source, source_words = (
            self._padded(values, begins[:, 0], sizes[:, 0], fill)
            for values, fill in ((pairs.source, self._pad), (pairs.source_words, PAD))
        )
        target, target_words = (
            self._padded(values, begins[:, 1], sizes[:, 1], fill)
            for values, fill in ((pairs.target, self._pad), (pairs.target_words, PAD))
        )
        words = (int(sizes[:, 2].max()), int(sizes[:, 3].max()))
        counts = sizes[:, 4]
        within = np.arange(counts.sum()) - (counts.cumsum() - counts).repeat(counts)
        chosen = begins[:, 4].repeat(counts) + within
        links = pairs.links[chosen].astype(np.int64)
        cells = (np.arange(len(numbers)).repeat(counts) * words[1] + links[:, 1]) * words[0] + links[:, 0]
        labels = torch.zeros(len(numbers) * words[1] * words[0], device=self._device)
        labels[self._to(cells)] = self._to(pairs.scores[chosen]) / 255
        own = (np.arange(words[0]) < sizes[:, 2, None])[:, None] & (np.arange(words[1]) < sizes[:, 3, None])[:, :, None]
        batch = Batch(source, source_words, target, target_words, words)
        return batch, labels.view(len(numbers), words[1], words[0]), self._to(own)

    def _padded(self, values: Array, begins: Array, lengths: Array, fill: int) -> Tensor:
        columns = np.arange(lengths.max())
        own = columns < lengths[:, None]
        padded = np.full(own.shape, fill, dtype=np.int64)
        padded[own] = values[(begins[:, None] + columns)[own]]
        return self._to(padded)

    def _to(self, values: Array) -> Tensor:
        return torch.from_numpy(values).to(self._device)


def cross_entropy(soft_scores: Tensor, labels: Tensor, real: Tensor) -> Tensor:
    """Return the binary cross-entropy of a batch, for each target word.

    Args:
        soft_scores: `[B, J, I]`.
        labels: the scores that they are to equal.
        real: which of them belong to words.
    """
    losses = functional.binary_cross_entropy(soft_scores.clamp(1e-4, 1 - 1e-4), labels, reduction="none")
    return (losses * real).sum() / real.any(2).sum()


class Trainable(Protocol):
    """What can be trained: its weights by name, and the loss of a batch with its labels, see `cross_entropy`."""

    weights: dict[str, Tensor]

    def loss(self, batch: Batch, labels: Tensor, real: Tensor) -> Tensor:
        """Return the loss for each target word."""


@torch.no_grad()
def held_out_loss(student: Trainable, pairs: Batches) -> float:
    """Return the mean loss of each target word."""
    sums = [(float(student.loss(*batch)), int(batch[2].any(2).sum())) for batch in pairs.once()]
    return sum(loss * words for loss, words in sums) / sum(words for _, words in sums)


def train(
    student: Trainable,
    next_batches: Callable[[int], Iterator[tuple[Batch, Tensor, Tensor]]],
    folder: Path,
    updates: int,
    rate: float,
    seed: int,
) -> None:
    """Train with Adam, a warm-up of 100 updates and a rate that falls to 0; resume from the last stored state.

    `next_batches` yields batches without end, by a seed.
    """
    optimizer = torch.optim.AdamW(student.weights.values(), lr=rate, betas=(0.9, 0.98), weight_decay=0.01)
    stored = folder / "training.pt"
    done = 0
    if stored.exists():
        state = torch.load(stored, weights_only=True)
        done = state["updates"]
        with torch.no_grad():
            for name, weight in student.weights.items():
                weight.copy_(state["weights"][name])
        optimizer.load_state_dict(state["optimizer"])
    torch.manual_seed(seed + done)
    start = last = time.monotonic()
    losses: list[Tensor] = []
    for number, batch in zip(range(done + 1, updates + 1), next_batches(seed + done), strict=False):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(number / 100, (updates - number + 1) / max(1, updates - 100), 1.0)
        loss = student.loss(*batch)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if torch.nn.utils.clip_grad_norm_(student.weights.values(), 1.0).isfinite():
            optimizer.step()
        losses.append(loss.detach())
        if number % 100 == 0 or number == updates:
            mean = torch.stack(losses).mean()
            about = f"update {number:,} of {updates:,}: loss {mean:.4f}, {time.monotonic() - start:.0f} s"
            print(about, file=sys.stderr, flush=True)
            losses = []
            if time.monotonic() - last > STORED_EVERY or number == updates:
                weights = {name: weight.detach() for name, weight in student.weights.items()}
                state = {"updates": number, "weights": weights, "optimizer": optimizer.state_dict()}
                torch.save(state, folder / "training.part")
                (folder / "training.part").replace(stored)
                last = time.monotonic()


def write_model(folder: Path, student: Student, layers: int, recorder: ModelRecorder) -> None:
    """Write the student as a model folder, in 16-bit numbers, with the text processing of its teacher."""
    origin: ModelFolder = recorder.origin[0]
    state = load_checkpoint(origin.checkpoint)
    weights = {name: weight.detach() for name, weight in student.weights.items()}
    cross = "decoder.layers.0.encoder_attn"
    width = student.width
    weights |= {f"{cross}.out_proj.bias": torch.zeros(width)}
    for norm in (f"{cross}_layer_norm", "decoder.layers.0.final_layer_norm"):
        weights |= {f"{norm}.weight": torch.ones(width), f"{norm}.bias": torch.zeros(width)}
    for name, shape in (("fc1", (1, width)), ("fc2", (width, 1))):  # after the cross-attention nothing is computed
        weights |= {f"decoder.layers.0.{name}.weight": torch.zeros(shape)}
        weights |= {f"decoder.layers.0.{name}.bias": torch.zeros(shape[0])}
    model = {name: weight.cpu().half() for name, weight in weights.items()}
    model[f"{cross}.{KEPT}"] = torch.tensor([student.head])
    settings = vars(model_settings(saved_settings(state), state["model"])) | {
        "arch": DISTILLED,
        "_name": DISTILLED,
        "encoder_layers": layers,
        "decoder_layers": 1,
        "decoder_ffn_embed_dim": 1,
        "full_context": True,
    }
    task = dict(zip(("source_lang", "target_lang"), recorder.languages, strict=True))
    content = io.BytesIO()
    torch.save({"args": None, "cfg": {"model": settings, "task": task}, "model": model}, content)
    folder.mkdir(exist_ok=True)
    (folder / "checkpoint.pt").write_bytes(content.getvalue())
    for rules in (side.rules for side in recorder.sides):
        files = [origin.dictionary(rules.language), *([rules.subword_file] if rules.subword_file else [])]
        for path in files:
            shutil.copyfile(path, folder / path.name)
    source, target = recorder.languages
    options = ModelOptions(source, target, case=rules.case, tokenizer=rules.tokenizer, subwords=rules.subwords)
    cell = Cell(1, student.head + 1)
    calibration: Calibration = {("norm", "input"): cell, ("weight", "input"): cell}
    (folder / "model.toml").write_text(format_model_toml(options, {"": calibration}), encoding="utf-8")


def build_parser() -> argparse.ArgumentParser:
    """Build the parser."""
    parser = parser_of("recipes.distil", str(__doc__))
    parser.add_argument("folder", type=Path, help="of labels, training and model; a training that is there goes on")
    parser.add_argument("--reverse", action="store_true", help="begin with the reverse model")
    parser.add_argument("--layers", type=int, default=2, help="of the encoder")
    parser.add_argument("--updates", type=int, default=4_000)
    parser.add_argument("--rate", type=float, default=0.001)
    parser.add_argument("--tokens", type=int, default=2_500, help="pieces of a batch, of the longer side")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--pairs", type=int, default=200_000, help="to train on, with those held out")
    parser.add_argument("--held-out", type=int, default=2_000, help="pairs that are not trained on")
    parser.add_argument("--begin", metavar="MODEL", help="a student to begin with (default: a part of the teacher)")
    add_teachers(parser)
    parser.add_argument("--device", default="cpu", help="for training")
    return parser


def run(
    data: Path,
    config: Path,
    experiment: str,
    folder: Path,
    reverse: bool,
    layers: int,
    updates: int,
    rate: float,
    tokens: int,
    dropout: float,
    pairs: int,
    held_out: int,
    begin: str | None,
    encoder: str,
    partner: int,
    seed: int,
    device: str,
    threads: int,
) -> None:
    """Label, train, write the model."""
    torch.set_num_threads(threads)
    settings = read_config(config)
    about = find_experiment(settings, experiment)
    teachers = teachers_of(about, data)
    direction = teachers[reverse].forward
    recorder: Any = direction.recorder
    place = folder / ("reverse" if reverse else "forward")
    place.mkdir(parents=True, exist_ok=True)
    if not (place / "pairs.npz").exists():
        whole = training_pairs(settings, about, data, seed)
        write_teachers(folder, whole, len(whole[:pairs]), teachers, encoder, partner)
        text = whole[:pairs]
        sides = swapped(text) if reverse else text
        labels = labels_of(folder, len(text), encoder, partner)
        labelled = read_labelled(zip(sides, labels, strict=True), recorder, reverse)
        head = leading_head(direction, sides[:BUFFER])
        np.savez(place / "part.npz", **labelled._asdict(), head=head)
        (place / "part.npz").replace(place / "pairs.npz")
    with np.load(place / "pairs.npz") as stored:
        labelled, head = Labelled(*(stored[name] for name in Labelled._fields)), int(stored["head"])
    weights = load_checkpoint(recorder.origin[0].checkpoint)["model"]
    if begin:
        student_model: Any = load(begin, device="cpu", scorer=None).forward.recorder
        weights = load_checkpoint(student_model.origin[0].checkpoint)["model"]
        student_head = weights.get(f"decoder.layers.0.encoder_attn.{KEPT}")
        if student_head is None or student_model.languages != recorder.languages:
            expected = "-".join(recorder.languages)
            raise ValueError(f"expected a distilled model of {expected} to begin with; got {student_model.name}")
        (head,) = student_head.tolist()
    student = Student(weights, layers, recorder.heads, head, recorder.start[0], dropout, device)
    unseen, trained_on = (Batches(part, recorder.pad, tokens, device) for part in split(labelled, held_out))
    train(student, trained_on, place, updates, rate, seed)
    if held_out:
        student.dropout = 0.0
        print(f"held-out loss {held_out_loss(student, unseen):.4f}", file=sys.stderr)
    write_model(place / "model", student, layers, recorder)


if __name__ == "__main__":
    run(**vars(build_parser().parse_args()))
