"""Compare our search with those of fairseq and transformers on real text, with bundled and briefly trained models.

usage: python -m tests.parity.measure_search DATA [--lines 300] [--seconds 200] [--kinds KIND ...]

A row for each model: lines with the same translation, the largest difference of a piece's log-probability, and CPU
seconds. fairseq searches with its defaults, transformers with early stopping and the limits of length that ours has;
the first piece and the last `</s>` are forced as its own settings force them. Models are trained on short lines of
DATA/train.{de,en}, and translate lines of at most 15 words. So little trained, some repeat a piece up to the limit of
length, where a forced `</s>` has probability 1 in transformers and its own here; stderr has the lengths of all that
differ.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import torch

from align import Pair, Search, load
from align._version import __version__
from align.core.scores import collate
from examples.to_hugging_face import convert
from tests import hugging

SIZES = {
    "d_model": 96, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 256, "decoder_ffn_dim": 256, "max_position_embeddings": 256,
    "num_layers": 2, "num_decoder_layers": 2, "d_kv": 24, "num_heads": 4, "d_ff": 256,
}  # fmt: skip
FAIRSEQ, TRAINED = ("de-en", "en-de"), ("marian", "t5", "mbart")


def write_vocabulary(kind: str, folder: Path, text: Path) -> int:
    """Write 1,000 pieces of a text as a kind of model has them; return their number."""
    from sentencepiece import SentencePieceTrainer
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

    SentencePieceTrainer.train(
        input=str(text), model_prefix=str(folder / "source"), vocab_size=1000, minloglevel=2, model_type="unigram"
    )
    rows = [line.split("\t") for line in (folder / "source.vocab").read_text().splitlines()[3:]]
    (folder / "source.vocab").unlink()
    if kind == "marian":
        (folder / "source.model").rename(folder / "source.spm")
        shutil.copyfile(folder / "source.spm", folder / "target.spm")
        pieces = ["</s>", "<unk>", *(piece for piece, _ in rows), "<pad>"]
        (folder / "vocab.json").write_text(json.dumps({piece: n for n, piece in enumerate(pieces)}))
        return len(pieces)
    (folder / "source.model").unlink()
    scored = [*((piece, 0.0) for piece in hugging.SPECIAL), *((piece, float(score)) for piece, score in rows)]
    tokenizer = Tokenizer(models.Unigram(scored, unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    languages = hugging.LANGUAGES if kind in hugging.MULTILINGUAL else ()
    tokenizer.add_special_tokens([AddedToken(piece, special=True) for piece in (*hugging.SPECIAL, *languages)])
    tokenizer.save(str(folder / "tokenizer.json"))
    return int(tokenizer.get_vocab_size())


def train(kind: str, folder: Path, data: Path, seconds: float) -> Any:
    """Train a model on lines of 3 to 9 words, save it, and return transformers' module."""
    from transformers import AutoModelForSeq2SeqLM

    sides = ((data / f"train.{code}").read_text(encoding="utf-8").split("\n") for code in ("de", "en"))
    pairs = [Pair(tuple(source.split()), tuple(target.split()), 1) for source, target in zip(*sides, strict=True)]
    pairs = [pair for pair in pairs if all(2 < len(side) < 10 for side in (pair.source, pair.target))][:10000]
    text = folder / "text"
    text.write_text("\n".join(" ".join(side) for pair in pairs for side in (pair.source, pair.target)))
    config = hugging._config(kind, write_vocabulary(kind, folder, text))
    text.unlink()
    for name, size in SIZES.items():
        if hasattr(config, name):
            setattr(config, name, size)
    torch.manual_seed(1)
    model: Any = AutoModelForSeq2SeqLM.from_config(config)
    model.save_pretrained(folder)
    recorder: Any = load(folder, device="cpu", options=hugging.options(kind)).forward.recorder
    encoded = [recorder.encode(pair) for pair in pairs]
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.98))
    end, start, numbers = config.eos_token_id, len(recorder.start), torch.Generator().manual_seed(1)
    begin, step, loss = time.process_time(), 0, torch.tensor(0.0)
    while (spent := time.process_time() - begin) < seconds:
        chosen = torch.randint(len(encoded), (32,), generator=numbers).tolist()
        batch = collate([encoded[n] for n in chosen], recorder.pad)
        source, steps = recorder.padded(batch)
        labels = torch.nn.functional.pad(batch.target, (0, 1), value=recorder.pad)  # [B, T+1]
        lengths = steps.kept.sum(1) - start
        labels.scatter_(1, lengths[:, None], end)
        labels[torch.arange(labels.shape[1]) > lengths[:, None]] = -100
        logits = model(input_ids=source.ids, attention_mask=source.kept.long(), decoder_input_ids=steps.ids).logits
        loss = torch.nn.functional.cross_entropy(logits[:, start - 1 :].flatten(0, 1), labels.flatten())
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(1, (step + 1) / 200) * max(0.05, 1 - spent / seconds)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
    print(f"{kind}: {step:,} steps, loss {loss.item():.2f}", file=sys.stderr)
    model.eval().save_pretrained(folder)
    return model


Theirs = tuple[Callable[[list[int]], list[int]], Callable[[list[int], list[int]], torch.Tensor]]
"""Their search, and their log-probabilities at each step of a translation `[T+1, V]`."""


def of_fairseq(recorder: Any, search: Search) -> Theirs:
    """Return the functions of fairseq."""
    from align.analysis.models.native import own_model

    model = own_model(recorder)
    from fairseq.sequence_generator import SequenceGenerator

    generator = SequenceGenerator([model], model.decoder.dictionary, beam_size=search.beam, max_len_a=1.5, max_len_b=50)

    def find(source: list[int]) -> list[int]:
        sample = {"src_tokens": torch.tensor([source]), "src_lengths": torch.tensor([len(source)])}
        found: list[int] = generator.generate(None, {"net_input": sample})[0][0]["tokens"].tolist()
        return found[:-1]

    def forced(source: list[int], target: list[int]) -> torch.Tensor:
        output = model(torch.tensor([source]), torch.tensor([len(source)]), torch.tensor([[2, *target]]))
        logs: torch.Tensor = model.get_normalized_probs(output, log_probs=True)
        return logs[0]

    return find, forced


def of_transformers(model: Any, recorder: Any, search: Search) -> Theirs:
    """Return the functions of transformers."""
    config, start = model.config, list(recorder.start)

    def find(source: list[int]) -> list[int]:
        most = min(int(search.max_len_a * len(source) + search.max_len_b), recorder.max_positions[1] - 1)
        found: list[int] = model.generate(
            torch.tensor([source]), attention_mask=torch.ones(1, len(source), dtype=torch.long), num_beams=search.beam,
            do_sample=False, early_stopping=True, max_new_tokens=most + len(start), decoder_start_token_id=start[0],
            forced_bos_token_id=start[1] if len(start) > 1 else None, forced_eos_token_id=config.eos_token_id,
            bad_words_ids=[[config.pad_token_id]], max_length=None,
        )[0].tolist()  # fmt: skip
        end = config.eos_token_id
        found = found[len(start) :]
        return found[: found.index(end)] if end in found else found

    def forced(source: list[int], target: list[int]) -> torch.Tensor:
        steps = torch.tensor([[*start, *target]])
        logits: torch.Tensor = model(input_ids=torch.tensor([source]), decoder_input_ids=steps, use_cache=False).logits
        return logits[0, len(start) - 1 :].log_softmax(-1)

    return find, forced


@torch.inference_mode()
def compare(name: str, recorder: Any, theirs: Theirs, lines: Sequence[str], search: Search) -> None:
    """Print a model's row."""
    sources = [list(recorder.encode(Pair(tuple(line.split()), (), 1)).source) for line in lines]
    translator = recorder.translator(search, 4000)
    words, translator._words = translator._words, list
    spent = [time.process_time()]
    ours = [translator([source])[0] for source in sources]
    spent.append(time.process_time())
    expected = [theirs[0](source) for source in sources]
    spent.append(time.process_time())
    largest = 0.0
    for source, ids in zip(sources, ours, strict=True):
        logits, states, kept = translator.find.model.begin(torch.tensor([source]))
        steps = [logits]
        for step, piece in enumerate(ids, 1):
            logits, states = translator.find.model.advance(torch.tensor([piece]), step, states, kept)
            steps.append(logits)
        chosen = torch.tensor([*ids, translator.find._ends[0]])[:, None]
        both = [logs.gather(1, chosen) for logs in (torch.cat(steps).log_softmax(1), theirs[1](source, ids))]
        largest = max(largest, float((both[0] - both[1]).abs().max()))
    same = sum(words(one) == words(other) for one, other in zip(ours, expected, strict=True))
    row = name, search.beam, len(lines), same, f"{largest:.1e}", *(f"{b - a:.1f}" for a, b in pairwise(spent))
    print(*row, sep="\t", flush=True)
    for source, one, other in zip(sources, ours, expected, strict=True):
        if words(one) != words(other):
            most = min(int(search.max_len_a * len(source) + search.max_len_b), recorder.max_positions[1] - 1)
            print(f"{name}: {len(one)} and {len(other)} pieces, at most {most}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--lines", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument("--kinds", nargs="+", default=[*FAIRSEQ, *(f"{name} as FSMT" for name in FAIRSEQ), *TRAINED])
    args = parser.parse_args()
    torch.set_num_threads(1)
    from transformers import AutoModelForSeq2SeqLM, logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    print(
        f"# python -m tests.parity.measure_search DATA --lines {args.lines} --seconds {args.seconds:g}; v:{__version__}"
    )
    print("model", "beam", "lines", "same", "log-probability", "our s", "their s", sep="\t")
    search = Search()
    for kind in args.kinds:
        text = args.data / f"valid.{'en' if kind.startswith('en') else 'de'}"
        limit = 15 if kind in TRAINED else 1000
        short = (line.rstrip("\n") for line in text.open(encoding="utf-8") if len(line.split()) <= limit)
        lines = [*islice(short, args.lines)]
        if kind in FAIRSEQ:
            recorder: Any = load(kind, device="cpu").forward.recorder
            compare(kind, recorder, of_fairseq(recorder, search), lines, search)
            continue
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "model"
            if kind in TRAINED:
                folder.mkdir()
                model = train(kind, folder, args.data, args.seconds)
            else:
                convert(kind.split()[0], folder)
                model = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32).eval()
            recorder = load(folder, device="cpu", options=hugging.options(kind)).forward.recorder
            compare(kind, recorder, of_transformers(model, recorder, search), lines, search)


if __name__ == "__main__":
    main()
