"""Every command of `eval/run.py` on toy models: its table says how it was made, and adds up."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import align
from align import Settings, load
from align.core.scores import collate
from align.core.types import DTYPES
from align.evaluation.link_formats import parse_scored
from align.models.fairseq.checkpoint import load_checkpoint
from align.models.fairseq.model import load_fairseq
from align.models.folder import find_model
from align.models.model_toml import ModelOptions
from tests import corpora
from tests.conftest import ROOT, example_pairs, needs_fast_align, needs_int8
from tests.eval.conftest import Result, read_table

pytestmark = pytest.mark.usefixtures("one_thread")

Command = Callable[..., Result]
Rows = list[dict[str, str]]

TEXT = "-s gold.de -t gold.en -m models/one"
EXPERIMENT = "--data . --config experiments.toml --experiment toy"
SMALL = "--lines 40 --rounds 1"
RUNS = {
    f"benchmark {TEXT} {SMALL} --threads 1 --naive-lines 10 --reverse-model models/back": (
        "benchmark",
        "# python eval/run.py benchmark -s gold.de -t gold.en --lines 40 --rounds 1; fairseq:de-en@",
    ),
    f"benchmark-memory {TEXT} {SMALL} --whole-lines 20": (
        "benchmark_memory",
        "# python eval/run.py benchmark-memory -s gold.de -t gold.en --lines 40 --rounds 1 --whole-lines 20; ",
    ),
    "benchmark-loading --shapes nllb-600M --dtypes bfloat16 --rounds 1 --pieces 1200": (
        "benchmark_loading",
        "# python eval/run.py benchmark-loading --shapes nllb-600M --dtypes bfloat16 --rounds 1",
    ),
    f"benchmark-shards {TEXT} {SMALL} --files 3 --memory-files 2 3 --workers 2": (
        "benchmark_shards",
        "# python eval/run.py benchmark-shards -s gold.de -t gold.en --files 3 --lines 40 ",
    ),
    f"serve-load {TEXT} --lines 40 --clients 3 --seconds 2": (
        "serve_load",
        "# python eval/run.py serve-load -s gold.de -t gold.en -m one --lines 40 --clients 3 --seconds 2; ",
    ),
    f"dtypes {EXPERIMENT} --lines 60 --students models/one models/back": ("toy.dtypes", "# dtypes|"),
    f"defaults {EXPERIMENT}": ("toy.defaults", "# defaults|fairseq:de-en@"),
    f"worth {EXPERIMENT}": ("toy.worth", "# worth|"),
    f"ensembles {EXPERIMENT}": ("toy.ensembles", "# ensembles|fairseq:de-en@"),
    f"unspaced {EXPERIMENT}": ("toy.unspaced", "# unspaced|fairseq:de-en@"),
    f"without-gold {EXPERIMENT} --lines 30 60 --swept 40": ("toy.without_gold", "# without_gold|fairseq:de-en@"),
    f"spans {EXPERIMENT}": ("toy.spans", "# spans|fairseq:de-en@"),
    f"scores {TEXT} --other gold.de --lines 1 --threads 1": ("scores", "# scores|fairseq:de-en@"),
    "quality text de-en --threads 1": ("quality", "# quality|text|beam:5|v:"),
    f"parts {TEXT} {SMALL}": ("parts", "# python eval/run.py parts, fairseq:de-en@"),
}
"""Arguments of a command, the name of its table, and how the table begins."""


def by_what(rows: Rows) -> dict[str, float]:
    return {row["what"]: float(row["value"]) for row in rows}


def check_benchmark(rows: Rows, data: Path) -> None:
    found = by_what(rows)
    stages = [value for what, value in found.items() if what.startswith("share of wall time")]
    assert sum(stages) == pytest.approx(100, abs=0.1)
    assert all(value > 0 for value in found.values())


def check_memory(rows: Rows, data: Path) -> None:
    found = by_what(rows)
    assert all(100 < peak < 2000 for what, peak in found.items() if " above " not in what and " / " not in what)
    base, naive = (found[f"word scores, all heads, {how}"] for how in ("attention weights", "norms, naive vectors"))
    assert found["norms, naive vectors, above attention weights"] == pytest.approx(naive - base, abs=0.2)


def check_loading(rows: Rows, data: Path) -> None:
    budget = 1.3 * 2 * 1e6 * float(rows[0]["millions_of_parameters"]) + 1e9
    assert float(rows[0]["percent_of_budget"]) == pytest.approx(100e6 * float(rows[0]["peak_mb"]) / budget, abs=1)


def check_shards(rows: Rows, data: Path) -> None:
    found = by_what(rows)
    assert found["3 files / one file"] == pytest.approx(found["3 files"] / found["one file"], rel=0.2)


def check_serve(rows: Rows, data: Path) -> None:
    assert [(row["clients"], row["wrong"], row["refused"]) for row in rows] == [("1", "0", "0"), ("3", "0", "0")]
    assert all(int(row["requests"]) > 0 and 0 < int(row["p50"]) <= int(row["p99"]) for row in rows)


def check_dtypes(rows: Rows, data: Path) -> None:
    expected = [
        (f"{number}{kind}", dtype) for kind in ("", " distilled") for dtype in DTYPES for number in ("one", "two")
    ]
    assert [(row["models"], row["products"]) for row in rows] == expected
    assert all(float(row["lines changed"]) == 0 for row in rows if row["products"] == "float32")


def check_defaults(rows: Rows, data: Path) -> None:
    ways = [(row["score"], row["heads"], row["position"], row["links"], row["threshold"]) for row in rows]
    assert len({*ways}) == 2 * 2 * 2 * (1 + 3 * 4) + 1  # the last is a threshold of two models alone
    assert [(row["model"], row["threshold"]) for row in rows[-5:]] == [
        ("both", threshold) for threshold in ("0.3", "0.4", "0.45", "0.5", "0.6")
    ]
    assert [row["p"] for row in rows if row["p"] == "n/a"] == ["n/a"] * 3
    recalls = [float(row["recall"]) for row in rows[-5:]]
    assert recalls == sorted(recalls, reverse=True)


def check_worth(rows: Rows, data: Path) -> None:
    assert [row["system"] for row in rows] == ["one model"] * 2 + ["two models"] * 2
    counted = [row for row in read_table(data / "results" / "toy.worth.parts.tsv")[1] if row["system"] == "eflomal"]
    links = (data / "gold.talp").read_text(encoding="utf-8").split()
    assert sum(int(row["sure"]) for row in counted if row["kind"] == "words of the source") == len(links)


def check_ensembles(rows: Rows, data: Path) -> None:
    partners = ["nothing", *(f"{tool}, {unit}" for tool in ("fast_align", "eflomal") for unit in ("words", "pieces"))]
    assert [(row["model"], row["with"]) for row in rows] == [
        (model, partner) for model in ("one model", "two models") for partner in partners
    ]
    assert float(rows[4]["aer_toy"]) < 20  # words are translated one by one, in order


def check_unspaced(rows: Rows, data: Path) -> None:
    found = {row["system"]: float(row["aer_toy"]) for row in rows}
    models = {"one model", "one model, reverse", "two models"}
    tools = {
        f"{tool} on {unit}" for tool in ("fast_align", "eflomal") for unit in ("characters", "ICU's words", "pieces")
    }
    means = {f"{model}, mean with {tool}" for model in models for tool in tools if tool.endswith("pieces")}
    others = {
        f"{model}, {how}"
        for model in models
        for how in ("threshold 0.3", "threshold 0.4", "--position input", "--reader de-en")
    }
    assert {system.partition(":")[0] for system in found} == models | tools | means | others
    assert found["eflomal on characters: intersection"] < 20  # words of letters, translated one by one
    (best,) = (row["system"] for row in rows if row["p_best"] == "n/a")
    assert found[best] == min(rate for system, rate in found.items() if ": " in system)


def check_without_gold(rows: Rows, data: Path) -> None:
    assert [row["lines"] for row in rows] == ["30", "60"]
    assert len({row["systems_all"] for row in rows}) == 1
    assert all(-1 <= float(row["rho_all"]) <= 1 for row in rows)


def check_spans(rows: Rows, data: Path) -> None:
    assert len({(row["system"], row["rule"]) for row in rows}) == 8
    spans = next(row for row in rows if row["system"].startswith("eflomal") and row["kind"] == "spans")
    assert float(spans["exact"]) > 80  # words are translated one by one, in order
    assert read_table(data / "results" / "toy.spans_rule.tsv")[1]


def check_scores(rows: Rows, data: Path) -> None:
    systems = {row["system"] for row in rows}
    models = {"two models", "one model", "two distilled models", "one distilled model"}
    assert systems == {*models, "eflomal", "eflomal with priors"}
    assert len(rows) == len(systems) * 8
    assert all(0 <= float(row["auc"]) <= 100 for row in rows)
    assert {row["recall"] for row in rows if row["kind"] == "all"} != {"0.0"}
    signature, definitions = read_table(data / "results" / "scores.definitions.tsv")
    assert "definitions|fairseq:de-en@" in signature
    assert [row["definition"] for row in definitions] == 2 * [*importlib.import_module("scores").DEFINITIONS]
    assert all(0 <= float(row[kind]) <= 100 for row in definitions for kind in ("all", "another sentence"))


def check_quality(rows: Rows, data: Path) -> None:
    assert [row["model"] for row in rows] == ["de-en"]
    assert float(rows[0]["bleu"]) > 5
    assert float(rows[0]["per_word"]) > float(rows[0]["per_piece"])


def check_parts(rows: Rows, data: Path) -> None:
    by_part = {row["part"]: row for row in rows}
    whole = by_part.pop("whole")
    for how in ("whole", "one pair at a time"):
        assert float(by_part.pop(f"{how}, without clocks")["float32"]) > 0
    assert sum(float(row["float32_share"]) for row in by_part.values()) == pytest.approx(100, abs=1)
    assert sum(float(row["float32"]) for row in by_part.values()) == pytest.approx(float(whole["float32"]), rel=0.01)
    with_floor = {part for part, row in by_part.items() if row["float32_floor"] != "n/a"}
    assert with_floor == {"products", "attention"}
    never_called = {part for part, row in by_part.items() if float(row["float32"]) == 0}
    assert never_called <= {"rows to eight bits and back, residuals"}  # without oneDNN


CHECKS = (
    *(check_benchmark, check_memory, check_loading, check_shards, check_serve, check_dtypes, check_defaults),
    *(check_worth, check_ensembles, check_unspaced, check_without_gold, check_spans, check_scores, check_quality),
    check_parts,
)


@pytest.mark.parametrize(
    ("arguments", "check"),
    [
        pytest.param(arguments, check, marks=needs_int8 if check is check_dtypes else (), id=arguments.split()[0])
        for arguments, check in zip(RUNS, CHECKS, strict=True)
    ],
)
@pytest.mark.usefixtures("forked_fairseq")
def test_a_table_says_how_it_was_made_and_adds_up(
    arguments: str, check: Callable[[Rows, Path], None], data: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data)
    for side in ("source", "target"):
        text = corpora.as_text([getattr(pair, side) for pair in example_pairs()[:6]])
        Path(f"text.{'de' if side == 'source' else 'en'}").write_text(text, encoding="utf-8")
    loading, small = importlib.import_module("benchmark_loading"), {"layers": 2, "heads": 2, "width": 16, "hidden": 24}
    monkeypatch.setattr(loading, "SHAPES", {name: one._replace(**small) for name, one in loading.SHAPES.items()})
    monkeypatch.setattr(importlib.import_module("benchmark_shards"), "PAUSE", 0.001)
    result = command(*arguments.split())
    assert result.code == 0, result.err
    name, begin = RUNS[arguments]
    sign, rows = read_table(data / "results" / f"{name}.tsv")
    assert sign.startswith(begin)
    assert sign[2:] in result.out
    check(rows, data)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (f"benchmark-memory {TEXT} --only magic", "one of weight, gram, naive; not 'magic'"),
        ("benchmark-loading --shapes huge", "shapes are opus-mt, nllb-600M, nllb-3.3B; not 'huge'"),
        (f"benchmark-peers {TEXT} --systems magic", "not 'magic'"),
        ("reproduce absent --data . --config experiments.toml", "absent: missing models/none"),
    ],
)
def test_what_is_not_there_is_named(
    arguments: str, message: str, data: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data)
    result = command(*arguments.split())
    assert (result.code, result.out) == (1, "")
    assert message in result.err


def test_a_decoder_only_model_is_trained_and_measured(
    data: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    monkeypatch.chdir(data)
    sizes = "--layers 2 --width 64 --dropout 0.1"
    train = f"train-causal model {EXPERIMENT} --tokens 400 --threads 1 {sizes} --save-every 1 --decay 1 --updates"
    assert command(*train.split(), 1).code == 0
    result = command(*train.split(), 2)
    assert result.code == 0, result.err
    assert "600 sequences" in result.out
    assert "1 updates done" in result.out
    log = Path("model/training.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in log] == ["updates", "1", "2"]
    causal = importlib.import_module("causal")
    monkeypatch.setattr(causal, "peak_memory", lambda command: float(len(command[-1])))
    result = command(*f"causal model {EXPERIMENT} --rounds 1".split())
    assert result.code == 0, result.err
    sign, rows = read_table(data / "results" / "causal.heads.tsv")
    assert sign.startswith("# causal|gold:toy|huggingface:de-en@")
    assert len(rows) == 2 * 2 * 2 * 2 * 2 * 9  # directions, nulls, positions, scores, layers, eight heads and all
    assert {row["top"] for row in read_table(data / "results" / "causal.agreement.tsv")[1]} <= set("012345")
    rates = {row["system"]: float(row["aer_toy"]) for row in read_table(data / "results" / "causal.systems.tsv")[1]}
    assert len(rates) == 2 * 2 * (2 * 2 * 4 + 3 * 8)  # models, nulls; by rules, and by settings in three ways
    assert causal.rank_correlation(*map(np.array, ([1, 2, 2, 3], [9, 8, 8, 0]))) == pytest.approx(-1)
    costs = by_what(read_table(data / "results" / "causal.costs.tsv")[1])
    assert costs["one head, norm"] == len("one head, norm") - len("nothing")
    assert command("causal", "model", *EXPERIMENT.split(), "--only", "one head, norm").code == 0
    text = causal.read_text(causal.read_config(Path("experiments.toml")), ["toy"], Path("."))
    aligner = load("models/one", device="cpu")
    swept = causal.sweep(causal.with_settings(aligner, Settings()), text.pairs, text.gold)
    for position in ("output", "both", "auto"):
        chosen = causal.with_settings(aligner, causal.chosen_settings(swept, "norm", position, "eos"))
        auto = causal.with_settings(aligner, Settings(position=position))
        assert [one.links for one in chosen(text.pairs)] == [one.links for one in auto(text.pairs)]


@needs_fast_align
def test_reproduce(data: Path, command: Command) -> None:
    result = command("reproduce", "--data", data, "--config", data / "experiments.toml", "-f", "tsv")
    assert result.code == 0, result.err
    assert "absent: missing" in result.err
    assert "without giza (toy text): GIZA++ is not installed" in result.err
    tables = {}
    for name in ("layers", "rules", "comparisons", "systems", "seeds"):
        sign, tables[name] = read_table(data / "results" / f"toy.{name}.tsv")
        assert sign.startswith("# reproduce|toy|gold:toy|fairseq:de-en@")
        assert "|trained:train+test|ci:percentile-1000|test:permutation-10000|seed:12345|v:" in sign
        assert f"\n{next(iter(tables[name][0].values()))}\t" in result.out
    assert all("(" in row["layer_1"] for row in tables["layers"])  # a deviation over the two models
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
    assert float(both["mean"]) == pytest.approx((one + two) / 2, abs=0.11)
    assert float(both["sd"]) == pytest.approx(abs(one - two) / 2**0.5, abs=0.11)


def test_benchmark_against_another_commit(
    data: Path, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    against, programs = (importlib.import_module(name) for name in ("benchmark_against", "programs"))

    def run_program(name: str, *options: object, tree: Path) -> Any:
        """Half as long for this tree; other links in int8, for the last line."""
        words, new = [*map(str, options)], tree == ROOT
        if "-o" in words:
            last = "1-1" if "int8" in words else "0-0"
            Path(words[words.index("-o") + 1]).write_text("0-0\n" * 19 + f"{last}\n")
        return programs.Timed(1.0 if new else 2.0, 6.0 if new else 12.0, 0)

    @contextmanager
    def checkout(commit: str) -> Iterator[Path]:
        yield tmp_path

    monkeypatch.setattr(against, "run_program", run_program)
    monkeypatch.setattr(against, "checkout", checkout)
    monkeypatch.setattr(against, "revision", lambda tree=ROOT: "new" if tree == ROOT else "old")
    monkeypatch.chdir(data)
    size = "--lines 20 --rounds 2 --threads 1 --dtypes float32 int8"
    result = command(*f"benchmark --against abc {TEXT} --reverse-model models/back {size}".split())
    assert result.code == 0, result.err
    rows = read_table(data / "results" / "benchmark_against.tsv")[1]
    assert [(row["revision"], row["dtype"], row["other"], float(row["rate"])) for row in rows] == 2 * [
        *(("old", "float32", "0", 2), ("new", "float32", "0", 4), ("new", "int8", "1", 4))
    ]
    assert [(float(row["rate_ratio"]), float(row["seconds"])) for row in rows] == 2 * [(1, 12), (2, 6), (2, 6)]


def test_another_commit_runs_by_its_own_modules(door: Any, tmp_path: Path) -> None:
    programs = importlib.import_module("programs")
    if not (ROOT / ".git").exists():
        pytest.skip("needs a git checkout")
    script = f"import align; open({str(tmp_path / 'out')!r}, 'w').write(align.__file__)"
    with programs.checkout("HEAD") as tree:
        programs.run_python(["-c", script], tree)
        assert (tmp_path / "out").read_text() == str(tree / "align" / "__init__.py")
    assert not tree.exists()
    with pytest.raises(ValueError, match=r"git worktree: .*no-such-commit"), programs.checkout("no-such-commit"):
        pass


def test_benchmark_peers_goes_on_where_it_was(data: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("eflomal")
    peers, encoder = importlib.import_module("benchmark_peers"), importlib.import_module("encoder")
    tiny = partial(encoder.forward_seconds, shape=encoder.Shape(50, 16, 2, 32))
    monkeypatch.setattr(peers, "forward_seconds", tiny)
    monkeypatch.setattr(peers, "revision", lambda: "abc")
    monkeypatch.chdir(data)
    common = f"benchmark-peers {TEXT} --reverse-model models/back --threads 1 --sample 7 --pairs 20".split()
    assert command(*common, "--systems", "eflomal", "encoder-8", "--rounds", 1).code == 0
    path = data / "results" / "benchmark_peers.tsv"
    rows = read_table(path)[1]
    assert [(row["system"], row["pairs"]) for row in rows] == [("eflomal", "20"), ("encoder-8", "7")]
    first = rows[0]["runs"]
    assert float(rows[0]["rate"]) == pytest.approx(20 / float(first), rel=0.01)
    more = ("--systems", "eflomal", "one-float32", "--resume", "--rounds", 2)
    result = command(*common, *more)
    assert result.code == 0, result.err
    rows = read_table(path)[1]
    expected = [("eflomal", 2), ("one-float32", 2), ("encoder-8", 1)]
    assert [(row["system"], len(row["runs"].split())) for row in rows] == expected
    assert rows[0]["runs"].split()[0] == first
    assert path.with_suffix(".png").stat().st_size > 1000
    again = command(*common, *more)
    assert (again.code, again.err) == (0, "")  # nothing is left to do
    assert "benchmark_peers.tsv was measured otherwise" in command(*common, *more, "-s", "gold.en").err


def test_a_distilled_model_reads_in_the_input_position(
    data: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data)
    distil = f"distil work {EXPERIMENT} --layers 1 --partner 0 --dropout 0 --threads 1 --updates"
    assert command(*distil.split(), 0).code == 0
    before = loss_on(data, "work/forward/model")
    result = command(*distil.split(), 60)
    assert result.code == 0, result.err
    assert loss_on(data, "work/forward/model") < before
    assert command(*distil.split(), 1, "--reverse").code == 0
    both = [load(f"work/{way}/model", device="cpu") for way in ("forward", "reverse")]
    assert [model.forward.settings.position for model in both] == ["input", "input"]
    assert [model.forward.recorder.languages for model in both] == [("de", "en"), ("en", "de")]
    with pytest.raises(ValueError, match="this model was distilled to align, and cannot translate"):
        load_fairseq(find_model("work/forward/model", ModelOptions())).own_model()
    students = "work/forward/model work/reverse/model"
    result = command(*f"distilled {EXPERIMENT} --lines 40 --rounds 1 --students {students}".split())
    assert result.code == 0, result.err
    rows = read_table(data / "results" / "toy.distilled.tsv")[1]
    assert [row["system"] for row in rows] == [
        *("one model", "two models", "one distilled model", "two distilled models")
    ]
    assert (rows[1]["time"], rows[1]["p"]) == ("1.00", "n/a")


def test_readers_are_trained_and_measured(data: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data)
    options = "--models models/one --reverse-models models/back --partner 0 --pairs 60 --threads 1 --epochs 1"
    result = command(*f"reader labels {EXPERIMENT} {options} --seeds 1 --readers-of de-en --rounds 1".split())
    assert result.code == 0, result.err
    rows = read_table(data / "results" / "toy.reader.tsv")[1]
    names = [
        f"{name}{more}"
        for name in ("models/one", "models/one + models/back")
        for more in ("", ", reader 1", ", reader of de-en")
    ]
    assert [row["system"] for row in rows] == names
    for row in rows:
        assert ("reader" in row["system"]) == (row["p"] != "n/a") == (row["time"] != "n/a")
    assert rows[1]["aer_toy"] == "100.0"  # it has learnt nothing, and links nothing
    pairs = importlib.import_module("distil").training_pairs(*settings_of(data), data, 1)[:60]
    for side, words in (("source", [pair.source for pair in pairs]), ("target", [pair.target for pair in pairs])):
        assert (data / "labels" / f"text.{side}").read_text() == "".join(f"{' '.join(line)}\n" for line in words)
    labels = list(importlib.import_module("reader").labels_of(data / "labels", 60))
    for name, turn in (("links", 1), ("links.swapped", -1)):
        lines = (data / "labels" / name).read_text().splitlines()
        for line, links in zip(lines, labels, strict=True):
            expected = {link[::turn]: score for link, score in links.items()}
            assert parse_scored(line) == pytest.approx(expected, abs=1e-4)
    assert max(len(links) for links in labels) > 0


def test_readers_that_models_come_with_are_measured(
    data: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data)
    options = "--models de-en --reverse-models en-de --threads 1 --rounds 1 --seeds"
    result = command(*f"reader none {EXPERIMENT} {options}".split())
    assert result.code == 0, result.err
    names = [f"{name}{more}" for name in ("de-en", "de-en + en-de") for more in ("", ", reader of de-en")]
    assert [row["system"] for row in read_table(data / "results" / "toy.shipped.tsv")[1]] == names
    assert not Path("none").exists()  # nothing is trained


def loss_on(data: Path, model: str) -> float:
    """Return the mean distance of a model's soft scores from the labels of the toy text."""
    aligner = load(model, device="cpu", threshold=0.0)
    labels = (data / "work" / "labels" / "000.txt").read_text().splitlines()
    pairs = importlib.import_module("distil").training_pairs(*settings_of(data), data, 1)
    distances = []
    for alignment, line in zip(aligner(pairs), labels, strict=True):
        label = parse_scored(line)
        links = {*label, *alignment.scores}
        distances += [abs(label.get(link, 0.0) - alignment.scores.get(link, 0.0)) for link in links]
    return float(np.mean(distances))


def settings_of(data: Path) -> tuple[Any, Any]:
    """Return the toy configuration and its experiment."""
    common = importlib.import_module("common")
    settings = common.read_config(data / "experiments.toml")
    return settings, common.find_experiment(settings, "toy")


def test_a_student_is_trained_on_the_scores_that_its_model_gives(data: Path, door: Any, tmp_path: Path) -> None:
    distil = importlib.import_module("distil")
    recorder = load_fairseq(find_model(str(data / "models" / "one"), ModelOptions()))
    weights = load_checkpoint(data / "models" / "one" / "checkpoint.pt")["model"]
    student = distil.Student(weights, 1, recorder.heads, 1, recorder.start[0], 0.0, "cpu")
    distil.write_model(tmp_path / "student", student, 1, recorder)
    aligner = load(tmp_path / "student", device="cpu", threshold=0.0, head=2)
    for alignment in islice(aligner(align.read_text(str(data / "gold.de"), str(data / "gold.en"))), 20):
        pieces = recorder.encode(alignment.pair)
        shares = student.shares(collate([pieces], recorder.pad))
        scores = distil.soft(shares, shares)[0].detach().numpy()
        written = np.zeros_like(scores)
        for (i, j), score in alignment.scores.items():
            written[j, i] = score
        np.testing.assert_allclose(scores, written, atol=0.01)
