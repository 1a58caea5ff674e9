"""Every command of `extract-align analyse` from the outside: a run, wrong usage, files that are something else."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from align.analysis.commands.program import main
from align.cli import extract, sweep
from align.evaluation.tables import WIDTH
from tests import hugging, toy
from tests.analysis.made import made_documents, write_documents
from tests.analysis.test_tagger import TEST, TRAIN
from tests.cli.conftest import Run, failed
from tests.conftest import ROOT
from tests.corpora import as_text, word_by_word
from tests.hugging_encoders import save_encoder

for module in ("matplotlib", "sklearn", "transformers"):
    pytest.importorskip(module)
pytestmark = pytest.mark.usefixtures("one_thread")

EXAMPLES = str(ROOT / "examples" / "de-en.txt")
PRONOUNS = ROOT / "examples" / "analysis" / "pronouns.en.tsv"
BANK = ROOT / "examples" / "analysis" / "trees.de.conllu"
ENCODER_WORDS = (("the", "DET", 2, "det"), ("old", "ADJ", 3, "amod"), ("house", "NOUN", 0, "root"))
CHUNKS = "the DT B-NP\nold JJ I-NP\nhouse NN I-NP\n. . O\n\n"


def conll(sentences: Iterable[Any]) -> str:
    """Write sentences as CoNLL-2000 has them."""
    return "\n".join("".join(f"{' '.join(row)}\n" for row in zip(*one, strict=True)) for one in sentences)


def conllu(words: Iterable[tuple[str, str, int, str]]) -> str:
    """Write a sentence as CoNLL-U has it."""
    rows = (
        f"{n}\t{word}\t_\t{tag}\t_\t_\t{head}\t{name}\t_\t_\n" for n, (word, tag, head, name) in enumerate(words, 1)
    )
    return "".join(rows) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with toy models and all that the commands read."""
    folder = tmp_path_factory.mktemp("analysis")
    toy.save_model(folder / "toy")
    toy.save_model(folder / "small", {"encoder_layers": 1, "decoder_layers": 1})
    hugging.save_model("marian", folder / "marian")
    hugging.save_model("t5", folder / "t5")
    save_encoder(folder / "bert")
    pairs = word_by_word(60)
    gold = "".join(" ".join(f"{n}-{n}" for n in range(len(pair.source))) + "\n" for pair in pairs[:5])
    long = [("house", "NOUN", n, "dep" if n else "root") for n in range(59)]  # too long for the encoder
    texts = {
        "source": "das haus ist alt\nwir sehen\n\n",
        "target": "the house is old\nwe see it\n\n",
        "gold": "0-0 1-1 2p2 3-3\n0-0 1-1\n\n",
        "other": "0-0\n",
        "blank60": "\n" * 60,
        "short": "das Haus\n",
        "first": "the old house .\nwe see\n\n",
        "second": "it is big now\nthe house .\nwe\n",
        "chunks.train": conll(TRAIN),
        "chunks.test": conll(TEST),
        "tune.de": as_text(pair.source for pair in pairs),
        "tune.en": as_text(pair.target for pair in pairs),
        "de": as_text(pair.source for pair in pairs[:5]),
        "en": as_text(pair.target for pair in pairs[:5]),
        "gold5": gold,
        "trees": conllu((*ENCODER_WORDS, (".", "PUNCT", 3, "punct"))) * 4 + conllu(long),
        "train.txt": CHUNKS * 3,
        "test.txt": CHUNKS,
        "vectors": "die 1 0\nder 1 0\nhaus 0 1\n",
        "pronouns.none": PRONOUNS.read_text(encoding="utf-8").replace("TRUE", "FALSE"),
    }
    for name, text in texts.items():
        (folder / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    write_documents(folder / "keys", made_documents())
    write_documents(folder / "keys.none", [{**one, "keyphrases": []} for one in made_documents(each=1)])
    return folder


@pytest.fixture
def run(run_main: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the program in that folder, with the words of its arguments."""
    monkeypatch.chdir(folder)
    return lambda arguments, *more, **named: run_main(main, *arguments.split(), *more, **named)


ADVERSARY = "adversary --train chunks.train --test chunks.test"
TUNED = "adversary-translation --tune-source tune.de --tune-target tune.en -s de -t en -g gold5"
LAYERS = "layers -m bert --threads 1 --epochs 2 --hidden 4"


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("mixing", "give FILEs of both sides, or -s, and -t where there is another side"),
        ("ablate -s source", "this command needs translations: give -t"),
        ("adversary --train a --test b --other-seeds 1,2", "--other-seeds takes others than --seed"),
        (LAYERS, "give --treebank, or --train and --test, or all of them"),
    ],
)
def test_wrong_usage(run: Run, command: str, error: str) -> None:
    result = run(command)
    assert (result.code, result.out) == (2, b"")
    assert error in result.err.partition("error: ")[2]


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("mixing -s short --attention cross", "cross-attention needs a text's other side: give -t"),
        ("ablate -m toy -s source -t target -g other", "other has 1 sentence pair, the text 3"),
        ("prune -m toy -s source -t target --heads 19 -o x", "cannot prune 19 heads: at most 18, because each"),
        ("prune -m marian -s source -t target --heads 1 -o x", "heads can be taken out of fairseq models only"),
        (f"{TUNED} --pairs 60", "tune.de: 60 lines: none is left to measure on"),
        (
            f"{TUNED} --tune-target blank60 --pairs 50",
            "tune.de and blank60: there is no pair that the model can read: ",
        ),
        (f"{TUNED} --pairs 50 -m marian", "only models of fairseq can be trained here"),
        ("coreference -m en-de pronouns.none", "no paragraph that the model can read and where one of both candidates"),
        (
            "ablate -m bert -s first -t second --bleu-lines 0",
            "this command needs a model with an encoder and a decoder",
        ),
    ],
)
def test_files_that_are_something_else(run: Run, command: str, error: str) -> None:
    failed(run(command, "-q"), error)
    assert not os.path.exists("x")


def plots(prefix: Path) -> list[str]:
    """The figures that begin with this."""
    return sorted(path.name for path in prefix.parent.glob(f"{prefix.name}.*.png") if path.with_suffix(".pdf").exists())


@pytest.mark.parametrize(
    ("command", "sign", "rows", "figures"),
    [
        (
            f"mixing {EXAMPLES} --lines 5",
            "fairseq:de-en@851e3df|n:5|seed:1|",
            {"categories": 9, "heads": 108, "dispersion": 9, "correlation": 12},
            ["cross.points", "decoder.points", "encoder.points"],
        ),
        (
            f"patterns {EXAMPLES} --lines 5 --attention cross --threshold 0.2",
            "fairseq:de-en@851e3df|n:5|threshold:0.2|seed:1|",
            {"parts": 2, "layers": 6, "heads": 24},
            ["cross.examples", "cross.shares"],
        ),
        (
            f"similarity {EXAMPLES} --lines 5 --attention encoder",
            "fairseq:de-en@851e3df|n:5|seed:1|",
            {"layers": 6, "heads": 24},
            ["encoder.norm", "encoder.weight"],
        ),
        (
            "ablate -m small -s source -t target -g gold --bleu-lines 2 --beam 1 --samples 20",
            "|text:source+target|n:3|gold:talp-0|bleu:2-beam1|ci:percentile-20|seed:12345|",
            {"model": 1, "heads": 12, "layers": 3, "pruning": 2 * 9 + 3 * 3, "agreement": 32},
            ["aer", "heads", "loss"],
        ),
        (
            f"{ADVERSARY} --lambdas 0.5 --other-seeds 2,2 --epochs 2 --threads 1",
            "train:chunks.train(250)|test:chunks.test(60)|lambda:0.5|divergence:js|threshold:seeds|epochs:2|seed:1|seeds:2",
            {"models": 4, "probes": 3},
            ["curve", "ranks"],
        ),
        (
            f"{TUNED} -m toy --pairs 40 --held-out 10 --updates 3 --lambdas 1 --move norm --threads 1",
            "|tuned:tune.de(40)|held-out:10|text:de|n:5|gold:pharaoh-0|lambda:1|divergence:js|move:norm|",
            {"models": 2, "layers": 4},
            ["aer"],
        ),
        (
            "keywords -m toy --keyphrases keys --epochs 2 --random-orders 1 --samples 10",
            "|train:4|dev:4|test:4|epochs:2|rate:0.0003|orders:1|samples:10|seed:1|",
            {"data": 3, "heads": 8, "found": 12, "tuning": 2, "ablation": 7},
            ["ablation", "heads"],
        ),
        (
            f"coreference -m en-de {PRONOUNS}",
            "fairseq:en-de@f2f82a4|gap:pronouns.en.tsv|n:8|seed:1|",
            {"pronouns": 6, "heads": 12},
            ["heads"],
        ),
        (
            f"syntax {BANK} --vectors vectors",
            "@851e3df|treebank:trees.de.conllu|n:8|fewest:20|seed:1|vectors:vectors|",
            {"relations": 1, "attachment": 8, "pairs": 4},
            ["relations"],
        ),
    ],
)
def test_runs(run: Run, tmp_path: Path, command: str, sign: str, rows: dict[str, int], figures: list[str]) -> None:
    result = run(f"{command} -q -f json --plots", tmp_path / "new" / "a")
    assert (result.code, result.err) == (0, "")
    found = json.loads(result.out)
    assert found["signature"].startswith(f"analysis|{command.split()[0]}|")
    assert sign in found["signature"]
    assert {name: len(table) for name, table in found.items() if name != "signature"} == rows
    assert plots(tmp_path / "new" / "a") == [f"a.{name}.png" for name in figures]


def test_mixing_of_one_side_and_of_too_little(run: Run, tmp_path: Path) -> None:
    no_piece = "\u200b"
    (tmp_path / "a").write_text(f"hello\n\n{no_piece}\n" + "haus " * 3000 + "\nnot read\n", encoding="utf-8")
    result = run("mixing -f json --lines 4 -s", tmp_path / "a")
    found = json.loads(result.out)
    assert {row["rank"] for row in found["dispersion"]} <= {None, -1, 1}  # one word has no correlations
    assert {row["part"] for row in found["dispersion"]} == {"encoder"}
    assert b"NaN" not in result.out
    assert b"|n:1|" in result.out  # of four lines
    assert result.err.endswith("warning: too long for the model, and left out: 1 line\n")


def test_mixing_of_segments(run: Run) -> None:
    result = run("mixing -m bert --threads 1 -f json -s first -t second")
    assert result.err.startswith("extract-align analyse: huggingface:bert@")
    assert result.err.endswith(" on cpu (1 thread)\n")
    pieces = {row["category"]: row["pieces"] for row in json.loads(result.out)["categories"]}
    assert pieces == {"[CLS]": 11 + 8, "rest": 11 * 7 + 8 * 4, ". and ,": 11 + 8, "[SEP]": 2 * 11 + 2 * 8}


@pytest.mark.parametrize(("model", "rows"), [("small", (4, 1, 2)), ("t5", (12, 3, 2))])
def test_ablate_as_text_of_a_part(run: Run, model: str, rows: tuple[int, ...]) -> None:
    command = f"ablate -q -m {model} -s source -t target --samples 10 --bleu-lines 1 --attention cross"
    result = run(command)
    assert model != "small" or run(command) == result
    assert result.out.decode().count("\ncross ") == sum(rows)
    lines = [line for line in result.out.decode().splitlines() if "; " not in line and ": " not in line]
    assert max(len(line) for line in lines if not line.startswith("analysis|")) <= WIDTH


@pytest.mark.parametrize("order", ["importance", "effect"])
def test_prune(order: str, run: Run, run_main: Run, tmp_path: Path) -> None:
    small, text = tmp_path / "new" / "small", ("-s", "source", "-t", "target")
    result = run(f"prune -q -m toy -s source -t target --heads 18 --rank-by {order} -o", small)
    assert (result.code, result.err) == (0, "")
    lines = result.out.decode().split("\n")
    assert [line.split()[:2] for line in lines[2:4]] == [["whole", "24"], ["pruned", "6"]]
    assert f"|n:3|order:{order}|pruned:fairseq:de-en@" in lines[-2]
    names = {path.name for path in small.iterdir()}
    assert names == {"checkpoint.pt", "dict.de.txt", "dict.en.txt", "model.toml"}
    links = run_main(extract.main, "-q", "-m", small, *text)
    assert (links.code, links.out.count(b"\n")) == (0, 3)
    assert run_main(sweep.main, "-q", "-m", small, *text).code == 0
    for command in (
        "ablate -s source -t target --bleu-lines 0 --lines 1",
        f"prune -s source -t target --heads 1 -o {tmp_path}/smaller",
        f"{TUNED} --pairs 1",
        "keywords --keyphrases keys",
    ):
        again = run(f"{command} -q -m", small)
        failed(again, "small: heads have been pruned from this model: questions about attention need all of them")


def test_layers(run: Run, tmp_path: Path) -> None:
    data, examples = "--treebank trees --folds 2 --train train.txt --test test.txt -f json", tmp_path / "examples.jsonl"
    result = run(f"{LAYERS} {data} --examples", examples, "--plots", tmp_path / "a")
    assert "extract-align analyse: chunks: part 1 of 1 told, by 4 probes\n" in result.err
    found = json.loads(result.out)
    assert "|data:trees+train.txt+test.txt|n:9|parts:2|hidden:4|epochs:2|seed:1|v:" in found["signature"]
    tasks = {row["task"]: (row["measure"], row["examples"], row["labels"]) for row in found["tasks"]}
    assert tasks == {
        "parts of speech": ("accuracy, %", 16, 4),
        "dependencies": ("accuracy, %", 12, 3),
        "chunks": ("F1, %", 4, 3),
    }
    assert [(row["task"], row["layer"]) for row in found["layers"]] == [(task, n) for task in tasks for n in range(4)]
    lines = [json.loads(line) for line in examples.read_text().splitlines()]
    assert [sum(line["task"] == task for line in lines) for task in tasks] == [16, 12, 4]
    assert [line["words"] for line in lines if line["task"] == "dependencies"][:2] == [["the", "old"], ["old", "house"]]
    assert {line["sentence"] for line in lines if line["task"] == "chunks"} == {4}
    assert plots(tmp_path / "a") == ["a.gains.png", "a.weights.png"]
    again = run(f"{LAYERS} {data} -q")
    assert (again.code, again.out, again.err) == (0, result.out, "")
