"""Train small Marian students with guided alignment on the same text, but other links; it can be interrupted.

    PYTHONPATH=PACKAGES .venv/bin/python -m recipes.guided FOLDER --data DATA [--links NAME]

The text is Moses tokens in lower case, without pairs that are in a gold set. Both kinds of links are between its words:
`ours` of two distilled models, `eflomal` of both directions of eflomal, symmetrised by grow-diag-final-and, which reads
twice as much text as the student, since it learns from it. Marian cuts words into pieces of sentencepiece, and its
links are between them: all pieces of the one word with all of the other. `none` is trained without links. Marian is
the package pymarian, which may be in PACKAGES.

The same command goes on from the last student saved. `eval/run.py guided FOLDER` measures all that were saved.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from pathlib import Path

import sentencepiece

from align import Pair
from align.baselines.tools import lower_case
from eval.common import find_experiment, read_config, read_train
from eval.programs import run_program
from recipes.labels import parser_of, training_pairs, write_lines

STUDENT = """
--type transformer --enc-depth 2 --dec-depth 1 --dim-emb 128 --transformer-dim-ffn 512 --transformer-heads 4
--transformer-decoder-autoreg rnn --dec-cell ssru --transformer-ffn-activation relu --tied-embeddings-all
--learn-rate 0.002 --lr-warmup 400 --lr-decay-inv-sqrt 400 --optimizer-params 0.9 0.98 1e-09 --clip-norm 1
--mini-batch-words 1000 --mini-batch 1000 --maxi-batch 500 --max-length 120 --workspace 1000 --shuffle-in-ram
--valid-freq 500u --save-freq 500u --disp-freq 50u --valid-metrics ce-mean-words --early-stopping 0
"""
"""A small student as those of Bergamot, with an SSRU decoder; its last layer is guided, with Marian's usual weight."""

COMMANDS = {
    "ours": ("-q", "-m", "de-en-fast", "--reverse-model", "en-de-fast", "--dtype", "int8", "--threads", 1),
    "eflomal": ("baseline", "-q", "eflomal", "--threads", 1),
}
"""What extract-align is to do to write links between words."""


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of the arguments of `run`."""
    parser = parser_of("recipes.guided", __doc__ or "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--links", choices=(*COMMANDS, "none"), default="ours")
    parser.add_argument("--pairs", type=int, default=40_000, help="of the student's text")
    parser.add_argument("--pieces", type=int, default=4_000, help="size of the vocabulary")
    parser.add_argument("--updates", type=int, default=1_000)
    return parser


def run(
    folder: Path,
    links: str,
    pairs: int,
    pieces: int,
    updates: int,
    data: Path,
    config: Path,
    experiment: str,
    seed: int,
    threads: int,
) -> None:
    """Write text and links as far as they are missing, and train."""
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    text, train, valid = ([folder / f"{name}.{side}" for side in ("de", "en")] for name in ("text", "train", "valid"))
    if not valid[1].exists():
        settings = read_config(config)
        about = find_experiment(settings, experiment)
        held = settings["train"][about["train"][0]]
        read = training_pairs(settings, about, data, seed)[: 2 * pairs]
        write_text(text, map(lower_case, read))
        write_text(train, map(lower_case, read[:pairs]))
        files = dict(zip(("source", "target"), held["valid"], strict=True))
        write_text(valid, read_train({**files, "languages": held["languages"]}, data))
    vocabulary = folder / "vocab.spm"
    if not vocabulary.exists():
        with vocabulary.with_suffix(".part").open("wb") as stream:
            sentencepiece.SentencePieceTrainer.train(
                input=[str(file) for file in train], model_writer=stream, vocab_size=pieces,
                eos_id=0, unk_id=1, bos_id=-1, pad_id=-1, minloglevel=2, num_threads=1,
            )  # fmt: skip
        vocabulary.with_suffix(".part").replace(vocabulary)
    student = folder / links
    student.mkdir(exist_ok=True)
    (student / "vocab.spm").write_bytes(vocabulary.read_bytes())
    command = [*STUDENT.split(), "--train-sets", *train, "--valid-sets", *valid, "--vocabs", *[vocabulary] * 2]
    if links in COMMANDS:
        aligned = text if links == "eflomal" else train
        of_words, of_pieces = folder / f"{links}.links", folder / f"{links}.pieces"
        if not of_words.exists():
            run_program("align", *COMMANDS[links], "-s", aligned[0], "-t", aligned[1], "-o", of_words)
        if not of_pieces.exists():
            lines = zip(*(file.open(encoding="utf-8", newline="\n") for file in (*train, of_words)), strict=False)
            write_lines(of_pieces, list(between_pieces(lines, vocabulary)))
        command += ["--guided-alignment", of_pieces]
    limits = ("--seed", seed, "--after", f"{updates}u", "--cpu-threads", threads)
    logs = ("--log", student / "train.log", "--valid-log", student / "valid.log")
    limited = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    run_program("pymarian", "train", *command, *limits, *logs, "--model", student / "model.npz", environment=limited)


def write_text(files: Iterable[Path], pairs: Iterable[Pair]) -> None:
    """Write both sides of a text."""
    sides = zip(*((" ".join(pair.source), " ".join(pair.target)) for pair in pairs), strict=True)
    for file, lines in zip(files, sides, strict=True):
        write_lines(file, lines)


def between_pieces(lines: Iterable[tuple[str, ...]], vocabulary: Path) -> Iterator[str]:
    """Yield the links of lines of source, target and links of words between pieces, none of which crosses a space."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(vocabulary))
    for source, target, links in lines:
        sides = []
        for side in (source, target):
            ends = list(accumulate((len(processor.encode(word)) for word in side.rstrip("\n").split(" ")), initial=0))
            sides.append([range(*span) for span in pairwise(ends)])
        words = (map(int, link.split("-")) for link in links.split())
        yield " ".join(f"{a}-{b}" for i, j in words for a in sides[0][i] for b in sides[1][j])


if __name__ == "__main__":
    run(**vars(build_parser().parse_args()))
