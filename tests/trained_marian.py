"""Small models that Marian trained, and what it says of pairs: `python -m tests.trained_marian FOLDER [NAME ...]`.

Needs pymarian, whose wheel has Marian itself. Its `score` reads a given target, and prints the log-probability of each
piece and the weights of the guided head.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from align import Pair
from tests.corpora import word_by_word

SSRU = "--transformer-decoder-autoreg rnn --dec-cell ssru"
PRE = "--transformer-preprocess n --transformer-postprocess da --transformer-postprocess-top n"
MODELS: dict[str, str] = {
    "student": f"--tied-embeddings-all {SSRU} --transformer-ffn-activation relu",
    "student-of-two": f"--tied-embeddings {SSRU} --transformer-ffn-activation relu",
    "untied-ssru": SSRU,
    "teacher": "--tied-embeddings-all --transformer-depth-scaling",
    "untied": "",
    "tied-target": "--tied-embeddings",
    "tied-source": "--tied-embeddings-src",
    "positions": "--transformer-train-position-embeddings",
    "pre-norm": f"--tied-embeddings-all {PRE}",
    "pre-norm-ssru": f"{PRE} {SSRU}",
    "gelu": "--tied-embeddings --transformer-ffn-activation gelu",
    "tied-layers": "--tied-embeddings-all --transformer-tied-layers 1 1",
    "norm-of-embeddings": "--tied-embeddings --transformer-postprocess-emb nd",
    "decoder-ffn": "--tied-embeddings --transformer-decoder-dim-ffn 24",
    "no-bias": "--tied-embeddings --output-omit-bias",
    "first-layer-guided": "--tied-embeddings --transformer-guided-alignment-layer 1",
    "cut-vocabulary": "--dim-vocabs 9 8",
}
"""Options of Marian by the names of models.

`positions` has sines all the same: Marian 1.12 has no other positions in a translation model. The last one knows fewer
pieces than its vocabularies have.
"""

PAIRS = [*word_by_word(5, seed=2), Pair(("das", "unbekannt", "haus"), ("unknown", "the"), 6)]

Row = dict[str, Any]
"""A pair, and of it Marian's `scores` of the target's pieces `[T+1]` and `weights` of the guided head `[T+1, S+1]`."""


def marian(command: str, *arguments: object) -> str:
    """Run a command of Marian on a core; return what it prints."""
    run = [sys.executable, "-m", "pymarian", command]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run([*run, *map(str, arguments)], capture_output=True, text=True, env=environment)
    if done.returncode:
        raise ChildProcessError(done.stderr.partition("Error: ")[2] or done.stderr)
    return done.stdout


def write_lines(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def write_text(folder: Path, pairs: Sequence[Pair]) -> tuple[Path, Path]:
    source, target = ([" ".join(getattr(pair, side)) for pair in pairs] for side in ("source", "target"))
    return write_lines(folder / "text.de", source), write_lines(folder / "text.en", target)


def vocabularies(folder: Path, name: str) -> list[Path]:
    """Return the vocabularies of a model, which are one file where its tables are one."""
    shared = {"--tied-embeddings-all", "--tied-embeddings-src"} & {*MODELS[name].split()}
    return [folder / file for file in (("vocab.yml", "vocab.yml") if shared else ("vocab.src.yml", "vocab.trg.yml"))]


def train(folder: Path, name: str, updates: int = 100, width: int = 8) -> None:
    """Train a model with a guided head on toy sentences; leave it, as Marian wrote it, and its vocabularies."""
    folder.mkdir(parents=True, exist_ok=True)
    pairs, path, files = word_by_word(500), folder / "model.npz", vocabularies(folder, name)
    with tempfile.TemporaryDirectory() as rest:
        text = write_text(Path(rest), pairs)
        links = write_lines(Path(rest, "links"), [" ".join(f"{i}-{i}" for i in range(len(p.source))) for p in pairs])
        if name == "cut-vocabulary":
            for file, side in zip(files, text, strict=True):
                words = sorted({*side.read_text().split()})
                write_lines(file, [f'"{word}": {n}' for n, word in enumerate(["</s>", "<unk>", *words])])
        size = f"--dim-emb {width} --transformer-dim-ffn {2 * width} --transformer-heads 2 --enc-depth 2 --dec-depth 2"
        rates = "--seed 1 --cpu-threads 1 --workspace 64 --learn-rate 0.01 --mini-batch 32 --overwrite --max-length 20"
        arguments = ["--type", "transformer", *f"{size} {rates} {MODELS[name]}".split(), "-t", *text, "-v", *files]
        arguments += ["--guided-alignment", links, "-m", path]
        marian("train", *arguments, "--after", f"{updates}u")
    for file in folder.glob("model.npz.*"):
        file.unlink()


def score(folder: Path, name: str, pairs: Sequence[Pair]) -> list[Row]:
    """Return Marian's scores and weights of pairs."""
    with tempfile.TemporaryDirectory() as rest:
        files = ("-m", folder / "model.npz", "-v", *vocabularies(folder, name), "-t", *write_text(Path(rest), pairs))
        options = ["--alignment", "soft", "--word-scores", "--cpu-threads", "1", "--workspace", "64"]
        lines = marian("score", *files, *options).splitlines()
    rows: list[Row] = []
    for pair, line in zip(pairs, lines, strict=True):
        _, weights, scores = line.split(" ||| ")
        row: Row = {"source": " ".join(pair.source), "target": " ".join(pair.target)}
        row["scores"] = [float(each) for each in scores.split()[1:]]
        row["weights"] = [[float(weight) for weight in step.split(",")] for step in weights.split()]
        rows.append(row)
    return rows


if __name__ == "__main__":
    for name in sys.argv[2:] or MODELS:
        folder = Path(sys.argv[1], name)
        train(folder, name)
        write_lines(folder / "scores.jsonl", [json.dumps(row) for row in score(folder, name, PAIRS)])
