"""Every command of `eval/run.py` on toy models: its table says how it was made, and adds up."""

from __future__ import annotations

import inspect
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from align import Gold
from align.core.types import DTYPES
from align.models.engine.linear import largest_int8_weight
from align.models.folder import BUNDLED, GENERAL_SCORER
from tests.conftest import ROOT, needs_fast_align, needs_int8
from tests.eval.conftest import Result, read_table
from tests.hugging_encoders import save_encoder

pytestmark = pytest.mark.usefixtures("one_thread")

Command = Callable[..., Result]
Rows = list[dict[str, str]]

TEXT = "-s gold.de -t gold.en -m models/one --reverse-model models/back"
EXPERIMENT = "--data . --config experiments.toml --experiment toy"


def made(command: Command, arguments: str, name: str, begin: str) -> Rows:
    """Run a command; return the rows of its table, which begins as it should and is printed, too."""
    result = command(*arguments.split())
    assert result.code == 0, result.err
    sign, rows = read_table(Path("results", f"{name}.tsv"))
    assert sign.startswith(f"# {begin}")
    assert sign[2:] in result.out
    return rows


def test_help_names_every_command_and_loads_no_torch() -> None:
    door = import_module("eval.run")
    script = f"""
import contextlib, runpy, sys
for arguments in (["--help"], *([name, "--help"] for name in {tuple(door.COMMANDS)!r})):
    sys.argv = ["run.py", *arguments]
    with contextlib.suppress(SystemExit):
        runpy.run_path({str(ROOT / "eval" / "run.py")!r}, run_name="__main__")
print("loaded:", sorted({{"torch", "fairseq", "scipy"}} & set(sys.modules)))
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.endswith("loaded: []\n")
    for name, options in door.COMMANDS.items():
        assert f"eval/run.py {name} " in result.stdout.replace("\n", " ")
        names = {max(flags, key=len).strip("-").replace("-", "_") for flags, _ in options} | {"output"}
        assert set(inspect.signature(import_module(door.module_of(name)).run).parameters) == names


@needs_fast_align
def test_reproduce(data: Path, command: Command) -> None:
    reproduce = ("reproduce", "--data", ".", "--config", "experiments.toml")
    result = command(*reproduce, "--baseline-links", "kept", "-f", "tsv")
    assert result.code == 0, result.err
    assert "absent: missing" in result.err
    assert "without giza (toy text): GIZA++ is not installed" in result.err
    tables = {}
    for name in ("layers", "rules", "comparisons", "systems", "seeds"):
        sign, tables[name] = read_table(Path("results", f"toy.{name}.tsv"))
        assert sign.startswith("# reproduce|toy|gold:toy|fairseq:de-en@")
        assert "|trained:train+test|ci:percentile-1000|test:permutation-100|seed:12345|v:" in sign
    rates = {row["system"]: float(row["aer_toy"]) for row in tables["systems"]}
    # one direction, also with a threshold and both positions; the reverse and three methods by two scores; these three
    # as they are by default; aligners, on words and on pieces
    assert len(tables["systems"]) == 2 * (4 + 3) + 2 * (2 * 4 + 3) + 2 * 2 * 5
    for row in tables["comparisons"]:
        assert float(row["difference"]) == pytest.approx(float(row["first_aer"]) - float(row["second_aer"]), abs=0.11)
    assert rates["fast_align (toy text): grow-diag-final-and"] < 20
    assert rates["eflomal (toy text): grow-diag-final-and"] < 20
    # each of the toy model's pieces is a word
    assert rates["fast_align (toy text, pieces): grow-diag"] == rates["fast_align (toy text): grow-diag"]
    both = next(row for row in tables["seeds"] if row["system"] == "two models: norm, both, soft")
    one, two = (rate for name, rate in rates.items() if "norm, both, soft" in name)
    assert both["each"] == f"{one:.1f} {two:.1f}"
    assert float(both["sd"]) == pytest.approx(abs(one - two) / 2**0.5, abs=0.11)
    for path in Path("kept").glob("fast_align*"):  # links that are kept are taken in place of new ones
        first, *lines = path.read_text(encoding="ascii").splitlines()
        path.write_text("\n".join([first, *("\t" for _ in lines), ""]), encoding="ascii")
    assert command(*reproduce, "toy", "--baseline-links", "kept").code == 0
    rows = read_table(Path("results", "toy.systems.tsv"))[1]
    assert {row["aer_toy"] for row in rows if row["system"].startswith("fast_align")} == {"100.0"}
    assert "absent: missing models/none" in command(*reproduce, "absent").err


def test_defaults(data: Path, command: Command) -> None:
    rows = made(command, f"defaults {EXPERIMENT}", "toy.defaults", "defaults|fairseq:de-en@")
    ways = {(row["score"], row["heads"], row["position"], row["links"], row["threshold"]) for row in rows}
    assert len(ways) == 2 * 2 * 2 * (1 + 3 * 4) + 1  # the last is a threshold of two models alone
    thresholds = [(row["model"], row["threshold"]) for row in rows[-5:]]
    assert thresholds == [("both", threshold) for threshold in ("0.3", "0.4", "0.45", "0.5", "0.6")]
    assert [row["p"] for row in rows].count("n/a") == 3
    recalls = [float(row["recall"]) for row in rows[-5:]]
    assert recalls == sorted(recalls, reverse=True)


def test_cards_are_written_again(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("huggingface_hub", reason="needs huggingface_hub")
    (tmp_path / "results").mkdir()
    table = tmp_path / "results" / "bundled.defaults.tsv"
    shutil.copyfile(ROOT / "eval" / "results" / table.name, table)
    models = tmp_path / "bundled"
    shutil.copytree(BUNDLED, models)
    card = models / "de-en" / "README.md"
    card.write_text(card.read_text(encoding="utf-8").replace("value: 13.1", "value: 1"), encoding="utf-8")
    assert command("cards", "--models", models).code == 0
    for name in ("de-en", "en-de"):  # the published cards have the figures of the results
        assert (models / name / "README.md").read_bytes() == (BUNDLED / name / "README.md").read_bytes()
    table.write_text(table.read_text(encoding="utf-8").replace("de-en@", "de-en@0"), encoding="utf-8")
    assert "bundled.defaults.tsv has no figures of fairseq:de-en@" in command("cards", "--models", models).err


def test_distilled(data: Path, command: Command) -> None:
    options = f"--lines 20 --rounds 1 --students models/two models/back --scorers {GENERAL_SCORER}"
    rows = made(command, f"distilled {EXPERIMENT} {options}", "toy.distilled", "distilled|fairseq:de-en@")
    models = ["one model", "two models", "one distilled model", "two distilled models"]
    assert [row["system"] for row in rows] == [name for model in models for name in (model, f"{model}, scorer 1")]
    assert (rows[2]["time"], rows[2]["p"]) == ("1.00", "n/a")
    assert [row["p"] == "n/a" for row in rows] == [True, False, True, False, False, False, False, False]
    assert rows[0]["aer_toy"] != rows[1]["aer_toy"]


def test_attention(data: Path, command: Command) -> None:
    rows = made(command, f"attention {EXPERIMENT}", "toy.attention", "attention|fairseq:de-en@")
    names = [row["named"].partition(",")[0] for row in rows]
    assert (names[:2], names[2].split()[0]) == (["last layer"] * 2, "layer")
    assert float(rows[2]["aer_toy"]) < float(rows[1]["aer_toy"])


@needs_int8
def test_dtypes(data: Path, command: Command) -> None:
    options = "--lines 30 --students models/one models/back"
    name = "toy.dtypes" if largest_int8_weight() == 127 else "toy.dtypes_without_vnni"
    rows = made(command, f"dtypes {EXPERIMENT} {options}", name, "dtypes|")
    kinds = [(f"{number}{kind}", dtype) for kind in ("", " distilled") for dtype in DTYPES for number in ("one", "two")]
    assert [(row["models"], row["products"]) for row in rows] == kinds
    assert all(float(row["lines changed"]) == 0 for row in rows if row["products"] == "float32")


@needs_fast_align
def test_ensembles(data: Path, command: Command) -> None:
    rows = made(command, f"ensembles {EXPERIMENT}", "toy.ensembles", "ensembles|fairseq:de-en@")
    partners = ["nothing", *(f"{tool}, {unit}" for tool in ("fast_align", "eflomal") for unit in ("words", "pieces"))]
    expected = [(model, partner) for model in ("one model", "two models") for partner in partners]
    assert [(row["model"], row["with"]) for row in rows] == expected
    assert float(rows[4]["aer_toy"]) < 20  # words are translated one by one, in order


def test_worth(data: Path, command: Command) -> None:
    rows = made(command, f"worth {EXPERIMENT}", "toy.worth", "worth|models/one|models/back|")
    assert [row["system"] for row in rows] == ["one model"] * 2 + ["two models"] * 2
    scored = [{(0, 0): 0.9, (1, 1): 0.4}, {(0, 0): 0.8}]
    gold = [Gold(frozenset({link}), frozenset({link})) for link in ((0, 0), (1, 1))]
    curve = import_module("eval.worth").Curve(scored, gold)
    precision, recall = curve(np.array([2, 1]))  # a sentence drawn twice counts twice
    assert precision.tolist() == pytest.approx([1, 2 / 3, 2 / 5])
    assert recall.tolist() == pytest.approx([2 / 3, 2 / 3, 2 / 3])
    assert curve.precision_at(0.5, np.array([1, 1])) == (1, 0.9)
    assert curve.recall_at(0.5, np.array([1, 1])) == (0.5, 0.8)


@needs_fast_align
def test_without_gold(data: Path, command: Command) -> None:
    options = "--lines 15 30 --swept 20"
    rows = made(command, f"without-gold {EXPERIMENT} {options}", "toy.without_gold", "without_gold|fairseq:de-en@")
    assert [row["lines"] for row in rows] == ["15", "30"]
    assert all(-1 <= float(row["rho_all"]) <= 1 for row in rows)


def test_scores(data: Path, command: Command) -> None:
    pytest.importorskip("eflomal")
    rows = made(command, f"scores {TEXT} --other gold.de --lines 1 --threads 1", "scores", "scores|fairseq:de-en@")
    models = {"two models", "one model", "two distilled models", "one distilled model"}
    assert {row["system"] for row in rows} == {*models, "eflomal", "eflomal with priors"}
    assert len(rows) == 6 * 8
    assert all(0 <= float(row["auc"]) <= 100 for row in rows)
    definitions = read_table(Path("results", "scores.definitions.tsv"))[1]
    assert [row["definition"] for row in definitions] == 2 * [*import_module("eval.scores").DEFINITIONS]


TREEBANKS = """
[projection]
treebanks = ["de.conllu", "en.conllu"]
languages = ["de", "en"]
models = [["models/one"], ["models/two", "models/back"]]

[projection.train]
toy = ["fast_align", "giza"]
"""


@needs_fast_align
def test_projection(data: Path, command: Command) -> None:
    config = data / "experiments.toml"
    config.write_text(config.read_text(encoding="utf-8") + TREEBANKS, encoding="utf-8")
    for side in ("de", "en"):  # a class for each length of the German word, but one sentence has another one in English
        pairs = zip(
            *((data / f"gold.{name}").read_text(encoding="utf-8").splitlines() for name in ("de", side)), strict=True
        )
        sentences = []
        for n, (german, line) in enumerate(pairs):
            labels = ["X" if n == 0 and side == "en" else f"L{len(word)}" for word in german.split()]
            labelled_words = zip(line.split(), labels, strict=True)
            tokens = [f"{i}\t{word}\t_\t{label}" + 6 * "\t_" for i, (word, label) in enumerate(labelled_words, 1)]
            sentences.append("\n".join([f"# sent_id = {n}", "1-2\tboth" + 8 * "\t_", *tokens, "", ""]))
        (data / f"{side}.conllu").write_text("".join(sentences), encoding="utf-8")
    rows = made(
        command, "projection --data . --config experiments.toml", "projection", "projection|treebank:de.conllu+en."
    )
    methods = ("intersection", "grow-diag-final-and")
    aligners = [f"fast_align (toy text): {method}" for method in methods]
    assert [row["system"] for row in rows] == ["one", "two and back", "one, scores", *aligners]
    assert (rows[0]["p_de"], rows[3]["p_de"]) == ("n/a", "0.0198")  # the least of a hundred permutations
    for row in rows:
        for side in ("de", "en"):
            accuracy, labelled, precision = (
                float(row[f"{key}_{side}"]) for key in ("accuracy", "labelled", "precision")
            )
            assert accuracy == pytest.approx(labelled * precision / 100, abs=0.1)
    wrong = len((data / "gold.de").read_text(encoding="utf-8").split("\n", 1)[0].split())
    words = len((data / "gold.de").read_text(encoding="utf-8").split())
    assert float(rows[4]["accuracy_en"]) == pytest.approx(100 * (1 - wrong / words), abs=1)
    classes = read_table(Path("results", "projection.classes.tsv"))[1]
    assert [(row["target"], row["system"]) for row in classes[:3]] == [
        ("en", "one"),
        ("de", "one"),
        ("en", "two and back"),
    ]
    assert {row["X"] for row in classes if row["target"] == "en"} == {"0.0"}
    assert {row["X"] for row in classes if row["target"] == "de"} == {"n/a"}
    path = data / "en.conllu"
    path.write_text(path.read_text(encoding="utf-8").replace("sent_id = 5", "sent_id = 50"), encoding="utf-8")
    err = command("projection", "--data", ".", "--config", "experiments.toml").err
    assert "de.conllu and en.conllu have different sentences (sent_id)" in err


@needs_fast_align
def test_bible(data: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    save_encoder(data / "models" / "bert")
    arguments = f"bible {EXPERIMENT} -m models/bert --baseline-links kept"
    Path("kept").mkdir()
    methods = ("intersection", "grow-diag-final-and")
    bible = import_module("eval.bible")
    for model in bible.THOT:  # kept links of thot: right ones by one heuristic, none by the other
        lines = [f"{line}\t" for line in Path("gold.talp").read_text(encoding="utf-8").splitlines()]
        lines = [
            " ".join(f"{int(link.split('-')[0]) - 1}-{int(link.split('-')[1]) - 1}" for link in line.split()) + "\t"
            for line in lines
        ]
        Path("kept", f"thot-{model}-toy.links").write_text("\n".join(["# thot:1", *lines, ""]), encoding="ascii")
    rows = {row["system"]: row for row in made(command, arguments, "toy", "toy|gold:toy|encoder:bert@")}
    partners = ("", ", fast_align", ", eflomal")
    models = [f"{name}{partner}" for name in ("one", "one without scorer", "one and back") for partner in partners]
    aligners = [
        f"{tool}: {way}" for tool in ("fast_align", "eflomal", *(f"thot, {m}" for m in bible.THOT)) for way in methods
    ]
    assert [*rows] == [*aligners, "models/bert", *models]
    assert (rows["thot, hmm: intersection"]["aer_toy"], rows["thot, hmm: grow-diag-final-and"]["aer_toy"]) == (
        "0.0",
        "100.0",
    )
    assert (
        rows["thot, hmm: grow-diag-final-and"]["p_thot"] == rows["eflomal: grow-diag-final-and"]["p_eflomal"] == "n/a"
    )
    assert float(rows["one and back"]["p_thot"]) < 0.05
    assert rows["fast_align: intersection"]["estimate"] == "0.0"


def test_markup(data: Path, command: Command) -> None:
    (data / "tags").mkdir()
    sides = {"html": ("de", "en", "das <b>Haus</b>", "the house", "the <b>house</b>")}
    sides["xl"] = ("de", "en", 'das <g id="1">Haus</g>', "the house", 'the <g id="1">house</g>')
    sides["ph"] = ("en", "de", "the %s house", "das Haus", "%s das Haus")  # nobody has it like that
    for name, (source, target, *lines) in sides.items():
        for ending, line in zip((source, target, "ref"), lines, strict=True):
            (data / "tags" / f"{name}.{ending}").write_text(f"{line}\n" * 2, encoding="utf-8")
    rows = made(command, "markup --data .", "markup", "markup|fairseq:de-en@")
    found = [(row["segments"], row["odd"], row["even"], row["of even"]) for row in rows]
    assert found == [("html", "1", "1", "1"), ("xl", "1", "1", "1"), ("ph", "0", "0", "1")]


def test_analysis(data: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    analysis, folder = import_module("eval.analysis"), Path("results", "analysis")
    printed = {"signature": "analysis|toy", "layers": [{"layer": 1, "interval": [0.1, 0.2], "gain": None}]}

    def run(command: list[Any], stdout: int) -> Any:
        assert command[1:7] == ["-m", "align", "analyse", "mixing", "-s", "./valid.de"]
        Path(f"{command[-1]}.points.pdf").touch()
        return SimpleNamespace(returncode=0, stdout=json.dumps(printed))

    monkeypatch.setattr(analysis.subprocess, "run", run)
    result = command("analysis", "mixing", "--data", ".")
    assert result.code == 0, result.err
    assert read_table(folder / "mixing.layers.tsv")[1] == [{"layer": "1", "interval": "0.1 to 0.2", "gain": "n/a"}]
    assert not [*folder.glob("*.pdf")]
    assert "there is no magic" in command("analysis", "magic", "--data", ".").err


def test_training_text_in_tokens_is_lower_cased_and_not_tokenized_again(data: Path) -> None:
    common = import_module("eval.common")
    Path("side").write_text("God’s Word, 2–3\n", encoding="utf-8")
    about = {"source": "side", "target": "side", "languages": ["en", "en"], "tokenizer": "none"}
    (pair,) = common.read_train(about, data)
    assert pair.source == pair.target == ("god’s", "word,", "2–3")
    (pair,) = common.read_train(about | {"tokenizer": "moses"}, data)
    assert pair.source == ("god", "’", "s", "word", ",", "2", "–", "3")


def test_benchmark(data: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark, programs = import_module("eval.benchmark"), import_module("eval.programs")

    def run_program(name: str, *options: object, tree: Path) -> Any:
        """Half as long for this tree; other links in int8, for the last line."""
        words, new = [*map(str, options)], tree == ROOT
        if "-o" in words:
            last = "1-1" if "int8" in words else "0-0"
            Path(words[words.index("-o") + 1]).write_text("0-0\n" * 19 + f"{last}\n")
        return programs.Timed(1.0 if new else 2.0, 6.0 if new else 12.0, 0)

    @contextmanager
    def checkout(commit: str) -> Iterator[Path]:
        yield data

    monkeypatch.setattr(benchmark, "run_program", run_program)
    monkeypatch.setattr(benchmark, "checkout", checkout)
    monkeypatch.setattr(benchmark, "revision", lambda tree=ROOT: "new" if tree == ROOT else "old")
    options = f"--against abc {TEXT} --lines 20 --rounds 2 --threads 1 --dtypes float32 int8"
    rows = made(command, f"benchmark {options}", "benchmark_against", "python eval/run.py benchmark --against abc ")
    expected = [("old", "float32", "0", 2), ("new", "float32", "0", 4), ("new", "int8", "1", 4)]
    assert [(row["revision"], row["dtype"], row["other"], float(row["rate"])) for row in rows] == 2 * expected
    assert [(float(row["rate_ratio"]), float(row["seconds"])) for row in rows] == 2 * [(1, 12), (2, 6), (2, 6)]


def test_benchmark_peers_resumes(data: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("eflomal")
    monkeypatch.setattr(import_module("eval.benchmark_peers"), "revision", lambda: "abc")
    common = f"benchmark-peers {TEXT} --threads 1 --pairs 20"
    begin = "python eval/run.py benchmark-peers -s gold.de -t gold.en; "
    (row,) = made(command, f"{common} --systems eflomal --rounds 1", "benchmark_peers", begin)
    assert float(row["rate"]) == pytest.approx(20 / float(row["runs"]), rel=0.01)
    more = f"{common} --systems eflomal one-float32 --resume --rounds 1"
    rows = made(command, more, "benchmark_peers", begin)
    assert [(row["system"], len(row["runs"].split())) for row in rows] == [("eflomal", 1), ("one-float32", 1)]
    assert rows[0]["runs"].split()[0] == row["runs"]
    assert Path("results", "benchmark_peers.png").stat().st_size > 1000
    assert command(*more.split()).err == ""  # nothing is left to do
    assert "benchmark_peers.tsv was measured otherwise" in command(*more.split(), "-s", "gold.en").err
    assert "not 'magic'" in command(*f"{common} --systems magic".split()).err
