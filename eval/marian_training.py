"""A small MarianMT model, trained with transformers from two sentencepiece vocabularies to folders as OPUS-MT has them.

The target's pieces come first in the joint vocabulary, and the softmax is over them only: `final_logits_bias` rules out
the rest.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from torch import Tensor, nn
from transformers import MarianConfig, MarianMTModel

from align import Pair

Ids = tuple[list[int], list[int]]
"""A pair's pieces, each side with `</s>`."""

FILES = ("source.spm", "target.spm", "vocab.json", "tokenizer_config.json")
SIDES = ("source", "target")
END, UNKNOWN = 0, 1


@dataclass(frozen=True)
class Recipe:
    """How to train.

    Attributes:
        minutes: to train for. The learning rate rises for the first `warm_up` updates, and then falls to 0.
        kept: how many models to keep, at equal intervals.
        pieces: of each vocabulary, which folds case.
        width: of the model (`d_model`); `hidden` is that of its feed-forward networks.
        layers: of the encoder, and of the decoder.
        most: pieces on either side of a pair that is trained on: attention is learnt sooner from short ones.
        tokens: pieces in a batch, pads included, on the side that has more.
    """

    minutes: float
    kept: int = 6
    pieces: int = 4_000
    width: int = 128
    layers: int = 3
    heads: int = 4
    hidden: int = 512
    most: int = 30
    tokens: int = 1_000
    rate: float = 1.5e-3
    warm_up: int = 300
    smoothing: float = 0.1
    seed: int = 1


class Vocabulary:
    """Two sentencepiece models and the numbers that both sides share, out of a folder."""

    def __init__(self, folder: Path) -> None:
        self._cut = [SentencePieceProcessor(model_file=str(folder / f"{side}.spm")) for side in SIDES]
        self._numbers: dict[str, int] = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
        of_target = (self._cut[1].id_to_piece(n) for n in range(self._cut[1].get_piece_size()))
        self.targets = 1 + max(self._numbers.get(piece, 0) for piece in of_target)
        self.size = len(self._numbers)
        self.pad = self._numbers["<pad>"]

    def __call__(self, pair: Sequence[str]) -> Ids:
        """The pieces of a source and a target sentence."""
        source, target = (
            [*(self._numbers.get(piece, UNKNOWN) for piece in cut.encode(side, out_type=str)), END]
            for cut, side in zip(self._cut, pair, strict=True)
        )
        return source, [number if number < self.targets else UNKNOWN for number in target]


def write_vocabulary(folder: Path, pairs: Sequence[Sequence[str]], languages: Sequence[str], pieces: int) -> None:
    """Train a sentencepiece model for each side, which also folds case, and number the pieces of both."""
    numbers = {"</s>": END, "<unk>": UNKNOWN}
    for n in (1, 0):
        path = folder / f"{SIDES[n]}.spm"
        with path.open("wb") as stream:
            SentencePieceTrainer.train(
                sentence_iterator=(pair[n] for pair in pairs),
                model_writer=stream,
                vocab_size=pieces,
                normalization_rule_name="nmt_nfkc_cf",
                hard_vocab_limit=False,
                num_threads=1,
                minloglevel=2,
            )
        cut = SentencePieceProcessor(model_file=str(path))
        for number in range(cut.get_piece_size()):
            if not cut.is_control(number):
                numbers.setdefault(cut.id_to_piece(number), len(numbers))
    numbers["<pad>"] = len(numbers)
    (folder / "vocab.json").write_text(json.dumps(numbers, ensure_ascii=False), encoding="utf-8")
    settings = {"tokenizer_class": "MarianTokenizer", "source_lang": languages[0], "target_lang": languages[1]}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


def make_model(recipe: Recipe, vocabulary: Vocabulary) -> Any:
    """A model with random weights."""
    torch.manual_seed(recipe.seed)
    sizes: dict[str, Any] = {}
    for side in ("encoder", "decoder"):
        sizes |= {f"{side}_layers": recipe.layers, f"{side}_attention_heads": recipe.heads}
        sizes |= {f"{side}_ffn_dim": recipe.hidden}
    config = MarianConfig(
        vocab_size=vocabulary.size,
        d_model=recipe.width,
        max_position_embeddings=512,
        activation_function="swish",
        scale_embedding=True,
        dropout=0.0,
        pad_token_id=vocabulary.pad,
        decoder_start_token_id=vocabulary.pad,
        eos_token_id=END,
        forced_eos_token_id=END,
        init_std=recipe.width**-0.5,
        **sizes,
    )
    config._attn_implementation = "eager"  # of torch's own on a CPU, the backward pass is slow in bfloat16
    model: Any = MarianMTModel(config)
    model.final_logits_bias[:, vocabulary.targets :] = -torch.inf
    for name, weight in model.named_parameters():
        if weight.dim() == 2 and "embed" not in name and "shared" not in name:
            nn.init.xavier_uniform_(weight)
    return model


def batches(pairs: Sequence[Ids], tokens: int, seed: int) -> list[list[int]]:
    """Numbers of pairs of like length together, in random order.

    Args:
        pairs: all of them.
        tokens: the most in a batch on either side, pads included.
        seed: of the order.
    """
    shuffle = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(pairs), generator=shuffle).tolist()
    order.sort(key=lambda n: (len(pairs[n][1]), len(pairs[n][0])))
    found: list[list[int]] = []
    longest = tokens
    for n in order:
        longest = max(longest, *map(len, pairs[n]))
        if not found or longest * (len(found[-1]) + 1) > tokens:
            found.append([])
            longest = max(map(len, pairs[n]))
        found[-1].append(n)
    return [found[n] for n in torch.randperm(len(found), generator=shuffle).tolist()]


def losses(model: Any, pairs: Sequence[Ids], targets: int, smoothing: float) -> Tensor:
    """The sum of a batch's losses, in nats: `[]`."""
    pad = model.config.pad_token_id
    source, target = (
        nn.utils.rnn.pad_sequence([torch.tensor(pair[n]) for pair in pairs], True, pad) for n in (0, 1)
    )  # [B, S], [B, T]
    kept = target != pad
    steps = torch.cat((torch.full_like(target[:, :1], pad), target[:, :-1]), 1)  # [B, T]
    mask = torch.ne(source, pad).long()
    found = model.model(input_ids=source, attention_mask=mask, decoder_input_ids=steps, use_cache=False)
    logits = nn.functional.linear(found.last_hidden_state[kept], model.lm_head.weight[:targets])
    return nn.functional.cross_entropy(logits.float(), target[kept], label_smoothing=smoothing, reduction="sum")


@torch.no_grad()
def loss_of(folder: Path, text: Sequence[Pair]) -> float:
    """The loss of a saved model on a text, in nats, without label smoothing."""
    vocabulary = Vocabulary(folder)
    model: Any = MarianMTModel.from_pretrained(folder, attn_implementation="eager")
    model.eval()
    pairs = [vocabulary((" ".join(pair.source), " ".join(pair.target))) for pair in text]
    order = batches(pairs, Recipe.tokens, Recipe.seed)
    return sum(losses(model, [pairs[n] for n in batch], vocabulary.targets, 0.0).item() for batch in order)


def shuffled(pairs: Sequence[Ids], recipe: Recipe, done: int) -> Iterator[list[Ids]]:
    """Batches of all epochs, without the first `done`."""
    epoch = 0
    while True:
        epoch += 1
        order = batches(pairs, recipe.tokens, recipe.seed + epoch)
        for batch in order[done:]:
            yield [pairs[n] for n in batch]
        done = max(0, done - len(order))


def train(folder: Path, recipe: Recipe, pairs: Sequence[Ids]) -> None:
    """Train, and keep models on the way, each in `folder/UPDATES`; goes on where it was stopped.

    Args:
        folder: with the vocabulary.
        recipe: how.
        pairs: to train on, but for those that are too long.
    """
    pairs = [pair for pair in pairs if max(map(len, pair)) <= recipe.most]
    vocabulary = Vocabulary(folder)
    model = make_model(recipe, vocabulary).train()
    optimizer = torch.optim.Adam(model.parameters(), recipe.rate, (0.9, 0.98), fused=True)
    done, seconds, state = 0, 0.0, folder / "state.pt"
    if state.is_file():
        saved = torch.load(state, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        done, seconds = saved["updates"], saved["seconds"]
    start = time.perf_counter() - seconds
    past = seconds / (60 * recipe.minutes)
    for batch in shuffled(pairs, recipe, done):
        if past >= 1:
            return
        optimizer.param_groups[0]["lr"] = recipe.rate * min((done + 1) / recipe.warm_up, 1 - past)
        with torch.autocast("cpu", torch.bfloat16):
            loss: Any = losses(model, batch, vocabulary.targets, recipe.smoothing)
        (loss / sum(len(target) for _, target in batch)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        done += 1
        before, seconds = past, time.perf_counter() - start
        past = seconds / (60 * recipe.minutes)
        if done % 100 == 0:
            mean = loss.item() / sum(len(target) for _, target in batch)
            print(f"{seconds:,.0f} s, update {done:,}: {mean:.3f} nats a piece, smoothed", flush=True)
        if int(past * recipe.kept) > int(before * recipe.kept):
            save(model, folder, done)
            parts = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({**parts, "updates": done, "seconds": seconds}, state)


def save(model: Any, folder: Path, updates: int) -> None:
    """Write a model folder."""
    into = folder / f"{updates:06}"
    model.save_pretrained(into)
    for name in FILES:
        (into / name).write_bytes((folder / name).read_bytes())
