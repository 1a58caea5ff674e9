"""Train the decoder-only model of `eval/run.py causal`: a small Llama that translates both ways; it can be interrupted.

    .venv/bin/python -m recipes.train_causal FOLDER --data DATA

The model reads `<s> <de> source <en> target </s>`, or the same with the languages swapped, in lower-cased Moses tokens.
Its vocabulary joins the sentencepiece pieces of the bundled models. The loss is that of the target's pieces, so that
nothing but translation makes its heads attend to the source. The learning rate is constant after a warm-up, and falls
to zero over the last updates: a longer training goes on from where the fall began. Matrix products are in bfloat16 on
a GPU, and on a CPU that has such instructions.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor

from align import read_text
from align.models.engine.linear import multiplies_bfloat16
from align.models.folder import find_model
from align.models.model_toml import ModelOptions
from align.models.preprocess import sentencepiece_pieces
from eval.common import Tokens, find_experiment, read_config, read_train
from recipes.labels import parser_of

SPECIAL = ("<unk>", "<s>", "</s>", "<de>", "<en>")
UNKNOWN, BEGIN, END, *_ = range(len(SPECIAL))

SETTINGS: dict[str, Any] = {
    "num_attention_heads": 8, "num_key_value_heads": 4, "max_position_embeddings": 512, "tie_word_embeddings": True,
    "rope_theta": 10_000.0, "bos_token_id": BEGIN, "eos_token_id": END, "pad_token_id": END,
}  # fmt: skip

LONGEST = 250
"""Pieces of a training pair."""

WARM_UP = 200
SMOOTHING = 0.1


def write_tokenizer(folder: Path) -> Any:
    """Write a tokenizer of the bundled models' pieces to a folder, and return it.

    Merges are ordered as the pieces are in the model that has them earlier, like those of one sentencepiece model.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    bundled = find_model("de-en", ModelOptions())
    ranks: dict[str, int] = {}
    for language in ("de", "en"):
        for rank, piece in enumerate(sentencepiece_pieces(bundled.root / f"{language}.spm")):
            ranks[piece] = min(rank, ranks.get(piece, rank))
    pieces = [piece for piece in sorted(ranks, key=lambda piece: (ranks[piece], piece)) if piece not in SPECIAL]
    ids = {piece: number for number, piece in enumerate((*SPECIAL, *pieces))}
    merges = []
    for piece in pieces:
        halves = [(piece[:cut], piece[cut:]) for cut in range(1, len(piece))]
        known = [(left, right) for left, right in halves if left in ids and right in ids]
        merges += sorted(known, key=lambda pair: (ids[pair[0]], ids[pair[1]]))
    tokenizer = Tokenizer(models.BPE(ids, merges, unk_token=SPECIAL[UNKNOWN], fuse_unk=True))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace("▁", prepend_scheme="always")
    begin = SPECIAL[BEGIN]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A", pair=f"{begin} $A {begin} $B", special_tokens=[(begin, BEGIN)]
    )
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"bos_token": begin, "eos_token": SPECIAL[END], "tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    return tokenizer


@dataclass(frozen=True)
class Example:
    """A training sequence.

    Attributes:
        ids: prompt, target and `</s>`.
        prompt: number of ids before the target.
    """

    ids: Sequence[int]
    prompt: int


def examples(tokenizer: Any, pairs: Sequence[tuple[str, str]]) -> list[Example]:
    """Return both directions of some pairs, one after the other."""
    sides = [
        [encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]
        for texts in zip(*pairs, strict=True)
    ]
    marks = [SPECIAL.index("<de>"), SPECIAL.index("<en>")]
    made = []
    for ids in zip(*sides, strict=True):
        for source, target in ((0, 1), (1, 0)):
            prompt = [BEGIN, marks[source], *ids[source], marks[target]]
            made.append(Example([*prompt, *ids[target], END], len(prompt)))
    return made


def batches(sequences: Sequence[Example], tokens: int, seed: int) -> Iterator[list[Example]]:
    """Yield batches of similar length, in random order, without end; the order depends on the seed alone."""
    epoch = 0
    while True:
        random = Random(f"{seed} {epoch}")
        order = sorted(range(len(sequences)), key=lambda n: (len(sequences[n].ids), random.random()))
        groups: list[list[int]] = [[]]
        for number in order:
            if groups[-1] and (len(groups[-1]) + 1) * len(sequences[number].ids) > tokens:
                groups.append([])
            groups[-1].append(number)
        random.shuffle(groups)
        yield from ([sequences[number] for number in group] for group in groups)
        epoch += 1


def target_losses(model: Any, batch: Sequence[Example], smoothing: float) -> tuple[Tensor, int]:
    """Return the sum of the losses of the targets' pieces, and their number."""
    device = model.device
    longest = max(len(example.ids) for example in batch)
    ids = torch.full((len(batch), longest), END)
    rows: list[Tensor] = []
    following: list[int] = []
    for number, example in enumerate(batch):
        ids[number, : len(example.ids)] = torch.tensor(example.ids)
        places = range(example.prompt - 1, len(example.ids) - 1)
        rows.append(torch.arange(places.start, places.stop) + number * longest)
        following += example.ids[example.prompt :]
    with torch.autocast(device.type, torch.bfloat16, enabled=multiplies_bfloat16(device.type)):
        states = model.model(input_ids=ids.to(device), use_cache=False).last_hidden_state.flatten(0, 1)
        logits = model.lm_head(states[torch.cat(rows).to(device)])
    loss = torch.nn.functional.cross_entropy(
        logits.float(), torch.tensor(following, device=device), reduction="sum", label_smoothing=smoothing
    )
    return loss, len(following)


@torch.inference_mode()
def measure(model: Any, sequences: Sequence[Example], words: Sequence[int]) -> list[float]:
    """Return nats per target word from German to English and back.

    Args:
        sequences: both directions of the pairs.
        words: of the targets of either direction, with one for the end of each.
    """
    model.eval()
    sums = []
    for direction in range(2):
        part = sorted(sequences[direction::2], key=lambda example: len(example.ids))
        sums.append(sum(float(target_losses(model, part[n : n + 50], 0)[0]) for n in range(0, len(part), 50)))
    model.train()
    return [total / count for total, count in zip(sums, words, strict=True)]


def add_dropout(model: Any, rate: float) -> None:
    """Drop out a part of the embeddings, and of what each block adds to them, while the model is trained."""

    def drop(module: Any, _: object, output: Any) -> Any:
        if isinstance(output, tuple):
            return (torch.nn.functional.dropout(output[0], rate, module.training), *output[1:])
        return torch.nn.functional.dropout(output, rate, module.training)

    blocks = [block for layer in model.model.layers for block in (layer.self_attn, layer.mlp)]
    for module in (model.model.embed_tokens, *blocks):
        module.register_forward_hook(drop)


class Muon(torch.optim.Optimizer):
    """Muon: momentum whose singular values are made nearly equal (Jordan et al. 2024).

    torch.optim.Muon computes in bfloat16 on every device, which takes longer than the model itself on CPUs without such
    products.

    Args:
        matrices: of the layers.
        rate: learning rate; updates have the size of AdamW's (Liu et al. 2025, equation 4).
    """

    def __init__(self, matrices: Sequence[Tensor], rate: float) -> None:
        super().__init__(matrices, {"lr": rate})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Change the matrices; those of one shape are computed together."""
        for group in self.param_groups:
            of_shape: dict[tuple[int, int], list[Tensor]] = {}
            for matrix in group["params"]:
                of_shape.setdefault(tuple(matrix.shape), []).append(matrix)
            for (rows, columns), matrices in of_shape.items():
                momenta = []
                for matrix in matrices:
                    momentum = self.state[matrix].setdefault("momentum", torch.zeros_like(matrix))
                    assert matrix.grad is not None
                    momenta.append(matrix.grad.lerp(momentum.lerp_(matrix.grad, 0.05), 0.95))
                stacked = torch.stack(momenta)
                in_half = stacked.device.type == "cpu" and multiplies_bfloat16()
                changes = orthogonalized(stacked.bfloat16() if in_half else stacked)
                size = 0.2 * max(rows, columns) ** 0.5 * group["lr"]
                for matrix, change in zip(matrices, changes, strict=True):
                    matrix.mul_(1 - 0.01 * group["lr"]).add_(change, alpha=-size)


def orthogonalized(matrices: Tensor) -> Tensor:
    """Return matrices `[N, A, B]` with singular values near 1, by five steps of Newton and Schulz."""
    if matrices.shape[1] > matrices.shape[2]:
        return orthogonalized(matrices.mT.contiguous()).mT
    x: Tensor = matrices / (matrices.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=-4.7750, alpha=2.0315), x, beta=3.4445)
    return x


def make_optimizers(model: Any, rate: float) -> list[torch.optim.Optimizer]:
    """Return Muon for the matrices of layers, and AdamW for embeddings and norms."""
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    tables_and_norms = [p for name, p in model.named_parameters() if p.ndim < 2 or "embed" in name]
    return [
        Muon(matrices, rate),
        torch.optim.AdamW(tables_and_norms, lr=rate, betas=(0.9, 0.98), weight_decay=0.0, fused=True),
    ]


def rate_at(update: int, updates: int, decay: int) -> float:
    """Return the factor of the learning rate at an update, from 0."""
    return min((update + 1) / WARM_UP, 1.0, max(0.0, (updates - update) / max(1, decay)))


def build_parser() -> argparse.ArgumentParser:
    """Build the parser."""
    parser = parser_of("recipes.train_causal", str(__doc__))
    parser.add_argument("folder", type=Path, help="of the model; a training that is there goes on")
    parser.add_argument("--begin", type=Path, metavar="FOLDER", help="start from this model's weights")
    parser.add_argument("--updates", type=int, default=20_000)
    parser.add_argument("--decay", type=int, default=2_000, help="updates over which the learning rate falls")
    parser.add_argument("--tokens", type=int, default=4_000, help="pieces of a batch")
    parser.add_argument("--rate", type=float, default=0.003)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=256, help="of the states")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--device", default="cpu", help="where to train: cpu, cuda")
    parser.add_argument("--save-every", type=int, default=250, metavar="UPDATES", help="also between measurements")
    return parser


def run(
    folder: Path,
    data: Path,
    config: Path,
    experiment: str,
    begin: Path | None,
    updates: int,
    decay: int,
    tokens: int,
    rate: float,
    seed: int,
    threads: int,
    device: str,
    layers: int,
    width: int,
    dropout: float,
    save_every: int,
) -> None:
    """Train, or go on training, and write the model to a folder.

    Raises:
        DataError: the text is missing or damaged.
    """
    import transformers

    settings = read_config(config)
    about = settings["train"][find_experiment(settings, experiment)["train"][0]]
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = write_tokenizer(folder)
    train = [(" ".join(pair.source), " ".join(pair.target)) for pair in read_train(about, data)]
    sequences = [example for example in examples(tokenizer, train) if len(example.ids) <= LONGEST]
    tokenize = [Tokens(language) for language in about["languages"]]
    source, target = (str(data / name) for name in about["valid"])
    pairs = [(tokenize[0](pair.source), tokenize[1](pair.target)) for pair in read_text(source, target)]
    valid = examples(tokenizer, [(" ".join(words[0]), " ".join(words[1])) for words in pairs])
    lengths = [sum(len(pair[side]) + 1 for pair in pairs) for side in (1, 0)]
    if begin is not None:
        model: Any = transformers.LlamaForCausalLM.from_pretrained(begin, dtype=torch.float32)
    else:
        size = tokenizer.get_vocab_size()
        sizes: dict[str, Any] = {"hidden_size": width, "intermediate_size": width * 5 // 2, "num_hidden_layers": layers}
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=size, **sizes, **SETTINGS))
    if dropout:
        add_dropout(model, dropout)
    if device == "cpu":  # where the gradient of fused attention is slow in bfloat16
        model.set_attn_implementation("eager")
    model.to(device).train()
    optimizers = make_optimizers(model, rate)
    state = folder / "training.pt"
    done = 0
    log = folder / "training.tsv"
    if state.is_file():
        saved = torch.load(state, map_location=device, weights_only=True)
        model.load_state_dict(saved["model"])
        for optimizer, values in zip(optimizers, saved["optimizers"], strict=True):
            optimizer.load_state_dict(values)
        done = saved["updates"]
        lines = log.read_text().splitlines()
        log.write_text("".join(f"{line}\n" for line in lines if not line[:1].isdigit() or int(line.split()[0]) <= done))
    else:
        log.write_text("updates\ttarget_pieces\ttrain\tvalid.de-en\tvalid.en-de\tseconds\n")
    print(f"{len(sequences):,} sequences, {model.num_parameters():,} parameters, {done:,} updates done", flush=True)
    stream = batches(sequences, tokens, seed)
    for _ in range(done):
        next(stream)
    total, count, began = torch.zeros((), device=device), 0, time.monotonic()
    for update in range(done, updates):
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * rate_at(update, updates, decay)
            optimizer.zero_grad(set_to_none=True)
        loss, size = target_losses(model, next(stream), SMOOTHING)
        (loss / size).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        total, count = total + loss.detach(), count + size
        if (update + 1) % save_every == 0 or update + 1 == updates:
            losses = measure(model, valid, lengths)
            numbers = [f"{value:.3f}" for value in (float(total) / count, *losses)]
            row = [str(update + 1), str(count), *numbers, f"{time.monotonic() - began:.0f}"]
            with log.open("a") as file:
                file.write("\t".join(row) + "\n")
            print(*row, flush=True)
            saved = {"model": model.state_dict(), "updates": update + 1}
            torch.save(saved | {"optimizers": [optimizer.state_dict() for optimizer in optimizers]}, f"{state}.new")
            os.replace(f"{state}.new", state)
            total, count, began = torch.zeros_like(total), 0, time.monotonic()
    model.to(torch.bfloat16).save_pretrained(folder)


if __name__ == "__main__":
    run(**vars(build_parser().parse_args()))
