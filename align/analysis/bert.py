"""Trains a small BERT on a text, and saves it as transformers does: `extract-align analyse train-bert`.

It learns to predict hidden pieces and following segments (Devlin et al. 2019, section 3.1).

An example has one or two segments, with some pieces hidden. Lines may be in any order. Two segments are a line cut in
two, after a sentence if it has several; in half of these pairs the second part comes from another line. Most texts that
are analysed with these models are one segment, and some are long: so half of all examples are an unchanged line, and a
few are consecutive lines.

There is no dropout: a small model sees its text a few times only. The saved model has the usual dropout for
fine-tuning.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from align.analysis.commands.common import progress_of, set_threads
from align.analysis.commands.questions import TrainBert
from align.analysis.models.native import import_transformers, silent
from align.cli.loading import Request
from align.core.stream import batches
from align.io.manifest import differences, dump_json
from align.io.output import locked_folder, open_output, replace_file
from align.io.reader import open_lines, read_lines
from align.models.engine.linear import multiplies_bfloat16
from align.models.load import pick_device
from align.models.recorder import fingerprint
from align.training.folder import is_current, move_model, refuse_files

JOINED, SINGLE = 0.03, 0.5
"""Shares of examples: consecutive lines, and single lines. The rest are pairs of segments."""

MAX_JOINED = 20  # number of consecutive lines in an example, which is then cut to a random length
IGNORED = -100  # label of positions and pairs without a prediction
READ_AHEAD = 8000  # number of lines that are sorted by length together

RATE, DECAY, MOMENTS, CLIP = 1e-3, 0.01, (0.9, 0.98), 1.0
"""The peak learning rate, weight decay, Adam's betas, and the norm at which gradients are clipped."""

WARM_UP = 0.06  # share of the updates in which the learning rate rises; after it the rate falls linearly to 0
VALIDATION_SEED = 1  # seed for hiding pieces of the validation text, the same in every run

Random = np.random.Generator


class Point(NamedTuple):
    """A point of the learning curve."""

    updates: int
    loss: float  # mean training loss since the last point, hidden pieces and following segments together
    valid: float  # validation loss in nats per hidden piece
    told: float  # share of hidden pieces that the model predicts correctly
    follows: float  # share of pairs for which it predicts whether the second segment follows; NaN without pairs


def learn_tokenizer(lines: Iterator[str], settings: TrainBert) -> Any:
    """Learn WordPieces, and return transformers' tokenizer.

    The library orders equally frequent pieces arbitrarily: another run may learn some others.
    """
    empty = import_transformers("training a BERT").BertTokenizer(do_lower_case=not settings.cased)
    tokenizer = empty.train_new_from_iterator(lines, settings.pieces, min_frequency=2, show_progress=False)
    tokenizer.model_max_length = settings.longest
    return tokenizer


def build(settings: TrainBert, tokenizer: Any) -> Any:
    """Return a model with random weights: transformers' `BertForPreTraining`."""
    hf = import_transformers("training a BERT")
    torch.manual_seed(settings.seed)
    config = hf.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=settings.width,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        intermediate_size=4 * settings.width,
        max_position_embeddings=settings.longest,
        pad_token_id=tokenizer.pad_token_id,
        attn_implementation="eager",  # on a CPU quicker to train than torch's fused attention
    )
    return hf.BertForPreTraining(config).eval()


def cut(words: Sequence[str], random: Random) -> int:
    """Return where to cut a line of two words or more: after a sentence if it has several, else near the middle."""
    places = range(1, len(words))
    after_sentences = [place for place in places if words[place - 1].endswith((".", "?", "!"))]
    return int(random.choice(after_sentences or places[len(places) // 4 : len(places) - len(places) // 4]))


def make_example(tokenizer: Any, lines: Sequence[str], number: int, random: Random) -> dict[str, Any]:
    """Make a random example from a line, of as many pieces as the tokenizer's limit allows.

    Its `next_sentence_label` is 0 if the second segment follows the first, 1 if it comes from another line, IGNORED if
    there is no second segment.
    """
    longest, first, second, label = tokenizer.model_max_length, lines[number], None, IGNORED
    words = first.split()[:longest]
    kind = random.random()
    if kind < JOINED:
        first = " ".join(lines[number : number + MAX_JOINED])
        longest = int(random.integers(longest // 4, longest + 1))
    elif kind >= JOINED + SINGLE and len(words) >= 4:
        place = cut(words, random)
        first, second, label = " ".join(words[:place]), " ".join(words[place:]), 0
        other = lines[int(random.integers(len(lines)))].split()[:longest]
        if random.integers(2) and len(other) >= 2:
            second, label = " ".join(other[cut(other, random) :]), 1
    encoded = tokenizer(first, second, truncation=True, max_length=longest, return_special_tokens_mask=True)
    return {**encoded, "next_sentence_label": label}


def collator(tokenizer: Any, seed: int) -> Callable[[list[dict[str, Any]]], Mapping[str, Any]]:
    """Return a function that pads examples to a batch, and hides some of their pieces."""
    hf = import_transformers("training a BERT")
    collate: Callable[..., Mapping[str, Any]] = hf.DataCollatorForLanguageModeling(tokenizer, seed=seed)
    return collate


def training_batches(tokenizer: Any, lines: Sequence[str], tokens: int, seed: int) -> Iterator[Mapping[str, Any]]:
    """Yield batches without end, the same for the same seed; each pass reads every line once, in a new order.

    A batch has at most `tokens` pieces, padding included.
    """
    random, collate = np.random.default_rng(seed), collator(tokenizer, seed)
    while True:
        order = random.permutation(len(lines))
        for start in range(0, len(order), READ_AHEAD):
            examples = [make_example(tokenizer, lines, n, random) for n in order[start : start + READ_AHEAD]]
            groups = list(batches([(len(example["input_ids"]), 0) for example in examples], tokens))
            for n in random.permutation(len(groups)):
                yield collate([examples[m] for m in groups[n]])


def predict(model: Any, batch: Mapping[str, Any]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the model's predictions, each with the right answers.

    Returns:
        Logits at M hidden positions `[M, V]`, the hidden pieces `[M]`, logits of whether the second segment
        follows, for P pairs `[P, 2]`, and the index of the right one `[P]`.
    """
    inputs = {name: values.to(model.device) for name, values in batch.items()}
    pieces, answers = inputs.pop("labels"), inputs.pop("next_sentence_label")
    with torch.autocast(model.device.type, torch.bfloat16, enabled=multiplies_bfloat16(model.device.type)):
        out = model.bert(**inputs)
        hidden, pairs = pieces != IGNORED, answers != IGNORED
        logits = model.cls.predictions(out.last_hidden_state[hidden])  # not of all positions: this layer is wide
        follows = model.cls.seq_relationship(out.pooler_output[pairs])
    return logits.float(), pieces[hidden], follows.float(), answers[pairs]


def loss_of(model: Any, batch: Mapping[str, Any]) -> Tensor:
    """Return the cross-entropy of hidden pieces, plus that of following segments if there are any."""
    logits, pieces, follows, answers = predict(model, batch)
    loss = nn.functional.cross_entropy(logits, pieces) if len(pieces) else logits.sum()
    return loss + nn.functional.cross_entropy(follows, answers) if len(answers) else loss


@torch.no_grad()
def validate(model: Any, tokenizer: Any, lines: Sequence[str]) -> tuple[float, float, float]:
    """Return loss per hidden piece, and the shares of hidden pieces and of pairs that are predicted correctly."""
    random, collate = np.random.default_rng(VALIDATION_SEED), collator(tokenizer, VALIDATION_SEED)
    loss = hidden = correct = pairs = following = 0.0
    for start in range(0, len(lines), 32):
        numbers = range(start, min(start + 32, len(lines)))
        batch = collate([make_example(tokenizer, lines, n, random) for n in numbers])
        logits, pieces, follows, answers = predict(model, batch)
        loss += float(nn.functional.cross_entropy(logits, pieces, reduction="sum"))
        hidden, pairs = hidden + len(pieces), pairs + len(answers)
        correct += float((logits.argmax(1) == pieces).sum())
        following += float((follows.argmax(1) == answers).sum())
    return loss / max(hidden, 1), correct / max(hidden, 1), following / pairs if pairs else float("nan")


def train(
    model: Any,
    tokenizer: Any,
    settings: TrainBert,
    lines: Sequence[str],
    checkpoint: Path,
    tell: Callable[[str], None],
) -> list[Point]:
    """Train a model to the end, or from its last checkpoint on, and return the learning curve."""
    lines, valid = lines[: -settings.valid], lines[-settings.valid :]
    decayed = [weight for weight in model.parameters() if weight.dim() > 1]
    rest = [weight for weight in model.parameters() if weight.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": DECAY}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=MOMENTS)
    updates, hf = settings.updates, import_transformers("training a BERT")
    schedule = hf.get_linear_schedule_with_warmup(optimizer, int(WARM_UP * updates), updates)
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
    points: list[Point] = []
    first = 0
    if checkpoint.is_file():
        saved = torch.load(checkpoint, map_location="cpu", weights_only=True)
        for name, part in parts.items():
            part.load_state_dict(saved[name])
        points = [Point(*point) for point in saved["points"]]
        first = points[-1].updates
        tell(f"going on from update {first:,}")
    stream = training_batches(tokenizer, lines, settings.tokens, settings.seed)
    losses: list[float] = []
    started = time.monotonic()
    for done, batch in enumerate(islice(stream, first, updates), first + 1):
        loss = loss_of(model, batch)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
        if done % settings.every and done < updates:
            continue
        point = Point(done, sum(losses) / len(losses), *validate(model, tokenizer, valid))
        points.append(point)
        losses = []
        state = {name: part.state_dict() for name, part in parts.items()}
        with replace_file(str(checkpoint)) as out:
            torch.save({**state, "points": [tuple(point) for point in points]}, out)
        seconds_left = (updates - done) * (time.monotonic() - started) / (done - first)
        tell(
            f"update {done:,} of {updates:,}: loss {point.loss:.3f}; validation {point.valid:.3f} nats a hidden piece, "
            f"{point.told:.1%} told right, following segments {point.follows:.1%}; {seconds_left / 60:.0f} min left"
        )
    return points


FILES = ("README.md", "training.tsv", "config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors")
"""Files of a model; the folder is one once the last is there."""


def train_folder(settings: TrainBert, command: str, request: Request) -> None:
    """Train a model on a text, and write the model folder; the command line is for its README."""
    set_threads(request)
    tell = progress_of(request)
    folder, work = settings.folder, settings.folder / "work"  # all files that do not belong to the model
    with locked_folder(folder):
        if not work.exists():
            refuse_files(folder, FILES)
        hf = import_transformers("training a BERT")
        lines: list[str] = []
        for path in map(str, settings.text):
            with open_lines(path) as stream:
                lines += filter(str.strip, read_lines(stream, path))
        if len(lines) <= settings.valid:
            raise ValueError(f"{len(lines):,} lines of text, and {settings.valid:,} of them are to validate on")
        made, pieces = work / "made-of.json", work / "tokenizer"
        made_of = {key: value for key, value in asdict(settings).items() if key not in ("folder", "every")}
        made_of["text"] = fingerprint(settings.text, "")
        if not made.is_file():
            tell("learning pieces")
            learn_tokenizer(iter(lines), settings).save_pretrained(pieces)
            with open_output(str(made)) as out:
                out.write(dump_json(made_of))
        elif differences(json.loads(made.read_bytes()), made_of):
            raise ValueError(f"{folder}: begun with another text or other settings; name another folder")
        tokenizer = hf.BertTokenizer.from_pretrained(pieces)
        size = f"{len(lines) - settings.valid:,} lines"
        tell(f"{size} to train on, {settings.valid:,} lines to validate")
        model = build(settings, tokenizer).to(pick_device(request.run.device))
        try:
            points = train(model, tokenizer, settings, lines, work / "checkpoint.pt", tell)
        except (KeyboardInterrupt, SystemExit):
            tell("stopped; the same command goes on from the last checkpoint")
            raise
        if not is_current(folder / FILES[-1], work / "checkpoint.pt"):
            draft = work / "model"
            shutil.rmtree(draft, ignore_errors=True)
            with silent(hf.logging):
                model.save_pretrained(draft)
                tokenizer.save_pretrained(draft)
            last = points[-1]
            rows = ["\t".join(last._fields), *("\t".join(f"{number:.6g}" for number in point) for point in points)]
            (draft / "training.tsv").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
            readme = (
                f"# A small BERT\n\n`{command}`: {size}, {last.updates:,} updates of {settings.tokens:,} pieces.\n\n"
                f"On {settings.valid:,} other lines: {last.valid:.3f} nats a hidden piece, {last.told:.1%} of them "
                f"told right; whether the second segment follows the first: {last.follows:.1%}. `training.tsv` has "
                "the curve.\n"
            )
            (draft / "README.md").write_text(readme, encoding="utf-8")
            move_model(draft, folder, FILES[-1])
    tell(f"{folder} is ready: extract-align analyse mixing -m {folder} -s TEXT")
