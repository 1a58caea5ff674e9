"""`eval/run.py reproduce`: all its tables, and what is missing."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from align import Pair
from tests.conftest import needs_fast_align
from tests.eval.conftest import Result, read_table

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def reproduce(data: Path, command: Callable[..., Result]) -> Callable[..., Result]:
    def call(*arguments: str) -> Result:
        return command("reproduce", "--data", data, "--config", data / "experiments.toml", *arguments)

    return call


@needs_fast_align
def test_tables_of_two_models_and_two_aligners(data: Path, reproduce: Callable[..., Result]) -> None:
    result = reproduce("-f", "tsv")
    assert result.code == 0, result.err
    assert "absent: missing" in result.err
    assert "without giza (toy text): GIZA++ is not installed" in result.err
    tables = {}
    for name in ("layers", "rules", "comparisons", "systems", "seeds"):
        sign, tables[name] = read_table(data / "results" / f"toy.{name}.tsv")
        assert sign.startswith("# reproduce|toy|gold:toy|fairseq:de-en@")
        assert "|pieces:fairseq:de-en@" in sign
        assert "|trained:train+test|ci:percentile-1000|test:permutation-10000|seed:12345|v:" in sign
        assert f"\n{next(iter(tables[name][0].values()))}\t" in result.out
    assert len(tables["layers"]) == 4
    assert all("(" in row["layer_1"] for row in tables["layers"])  # a deviation over the two models
    assert {row["model"] for row in tables["rules"]} == {"1", "2"}
    assert sum(row["rule"].startswith("agreement") for row in tables["rules"]) == 2 * 8
    rates = {row["system"]: float(row["aer_toy"]) for row in tables["systems"]}
    # one direction, also with a threshold and both positions; the reverse and three methods by two scores; these three
    # as they are by default; aligners, on words and on pieces
    assert len(tables["systems"]) == 2 * (4 + 3) + 2 * (2 * 4 + 3) + 2 * 2 * 5
    assert "models/one and models/back: norm, input, grow-diag" in rates
    assert "models/one and models/back: norm, both, grow-diag of links above 0.5" in rates
    for row in tables["comparisons"]:
        assert float(row["difference"]) == pytest.approx(float(row["first_aer"]) - float(row["second_aer"]), abs=0.11)
        assert 0 < float(row["p"]) <= 1
    assert len(tables["comparisons"]) == 2 * 2 * 4
    assert rates["fast_align (toy text): grow-diag-final-and"] < 20
    assert rates["eflomal (toy text): grow-diag-final-and"] < 20
    # each of the toy model's pieces is a word
    assert rates["fast_align (toy text, pieces): grow-diag"] == rates["fast_align (toy text): grow-diag"]
    default = [row for row in tables["systems"] if row["system"].endswith(" (default)")]
    assert [(row["system"], row["p"]) for row in default] == [
        ("models/one and models/back: norm, both, soft (default)", "n/a")
    ]
    seeds = {row["system"]: row for row in tables["seeds"]}
    assert len(seeds) == (4 + 3) + (2 * 4 + 3)
    both = seeds["two models: norm, both, soft"]
    one, two = (rate for name, rate in rates.items() if "norm, both, soft" in name)
    assert both["each"] == f"{one:.1f} {two:.1f}"
    assert float(both["mean"]) == pytest.approx((one + two) / 2, abs=0.11)
    assert float(both["sd"]) == pytest.approx(abs(one - two) / 2**0.5, abs=0.11)
    drawn = {path.name for path in (data / "results").iterdir() if path.suffix != ".tsv"}
    assert drawn == {f"toy.{name}.{kind}" for name in ("layers", "heads") for kind in ("png", "pdf")}


@needs_fast_align
def test_links_of_statistical_aligners_are_kept(data: Path, door: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    baselines, common = (importlib.import_module(name) for name in ("baselines", "common"))
    config = common.read_config(data / "experiments.toml")
    text, about = common.read_text(config, ["toy"], data), config["train"]["toy"]
    folder = data / "kept" / "here"
    kept = baselines.Baselines(data, folder)
    found = kept.align("fast_align", about, text)
    assert found.tool.startswith("fast_align:")
    assert found == baselines.Baselines(data).align("fast_align", about, text)
    (file,) = folder.iterdir()
    assert (file.name[:11], file.suffix) == ("fast_align-", ".links")
    assert file.read_text(encoding="ascii").startswith(f"# {found.tool}\n")
    without = [(frozenset(), frozenset())] * len(text.pairs)
    monkeypatch.setattr(baselines, "align_with", lambda *_, **__: iter(without))
    assert kept.align("fast_align", about, text) == found
    other = common.load_model("models/one", data).forward.recorder
    assert kept.align("fast_align", about, text, other).links == without  # of pieces: another file
    trained_on = SimpleNamespace(encode=other.encode)
    kept.align("fast_align", about, text, trained_on)
    assert len(list(folder.iterdir())) == 2  # the same pieces: the same file
    (data / "train.source").write_text("good-2\n" * 300, encoding="utf-8")
    assert kept.align("fast_align", about, text).links == without
    assert len(list(folder.iterdir())) == 3


@needs_fast_align
def test_kept_links_are_for_the_version_that_is_installed_or_for_none(
    data: Path, door: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    baselines, common = (importlib.import_module(name) for name in ("baselines", "common"))
    config = common.read_config(data / "experiments.toml")
    text, about = common.read_text(config, ["toy"], data), config["train"]["toy"]
    kept = baselines.Baselines(data, data / "kept")
    found = kept.align("fast_align", about, text)

    def not_installed(tool: str) -> str:
        raise ModuleNotFoundError(f"{tool} is not installed")

    monkeypatch.setattr(baselines, "describe_tool", not_installed)
    assert kept.align("fast_align", about, text) == found
    with pytest.raises(ModuleNotFoundError, match="eflomal is not installed"):
        kept.align("eflomal", about, text)
    monkeypatch.setattr(baselines, "describe_tool", lambda tool: f"{tool}:newer")
    monkeypatch.setattr(baselines, "align_with", lambda *_, **__: iter([]))
    assert kept.align("fast_align", about, text) == ("fast_align:newer", [])


@pytest.mark.parametrize(
    ("head", "line", "more", "why"),
    [
        ("", "", 0, "not enough values"),
        ("# fast_align:1\n", "0-0\t0-0\n", 1, "the text has"),
        ("# fast_align:1\n", "0-0\n", 0, "not enough values"),
        ("# fast_align:1\n", "0-0\t0 1\n", 0, "pairs of numbers between spaces"),
        ("# \u20ac\n", "0-0\t0-0\n", 0, "codec"),
    ],
)
def test_kept_links_that_cannot_be_used_are_named(
    data: Path, door: Any, head: str, line: str, more: int, why: str
) -> None:
    baselines, common = (importlib.import_module(name) for name in ("baselines", "common"))
    config = common.read_config(data / "experiments.toml")
    text, about = common.read_text(config, ["toy"], data), config["train"]["toy"]
    kept = baselines.Baselines(data, data)
    path = data / f"fast_align-{kept._digest(about, text, None)}.links"
    path.write_text(head + line * (len(text.pairs) + more), encoding="utf-8")
    with pytest.raises(ValueError, match=r"cannot be used \(.*\): remove it") as raised:
        kept.align("fast_align", about, text)
    assert str(path) in str(raised.value)
    assert why in str(raised.value)


def test_an_experiment_that_was_asked_for_must_be_there(data: Path, reproduce: Callable[..., Result]) -> None:
    result = reproduce("absent")
    assert (result.code, result.out) == (1, "")
    assert f"absent: missing {data / 'models' / 'none'}" in result.err
    assert "scripts/get_data" in result.err


@pytest.mark.parametrize(("arguments", "part"), [(("frobnicate",), "no experiment frob"), (("-f", "x"), "choice")])
def test_wrong_usage(reproduce: Callable[..., Result], arguments: tuple[str, ...], part: str) -> None:
    result = reproduce(*arguments)
    assert (result.code, result.out) == (2, "")
    assert part in result.err


@pytest.mark.usefixtures("door")
def test_text_of_several_files_and_gold_whose_target_comes_first(tmp_path: Path) -> None:
    common: Any = importlib.import_module("common")
    texts = {"a.fr": "Le chat.\n", "b.fr": "Oui !\n", "a.en": "The cat.\n", "b.en": "Yes!\n", "gold": "1 1 2 S\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    train = {"source": ["a.fr", "b.fr"], "target": ["a.en", "b.en"], "languages": ["fr", "en"]}
    raw = [Pair(("Le", "chat."), ("The", "cat."), 1), Pair(("Oui", "!"), ("Yes!",), 2)]
    assert list(common.read_train(train, tmp_path, tokenize=False)) == raw
    tokens = [Pair(("le", "chat", "."), ("the", "cat", "."), 1), Pair(("oui", "!"), ("yes", "!"), 2)]
    assert list(common.read_train(train, tmp_path)) == tokens
    assert [(pair.source, pair.target) for pair in common.read_lines_of(train, tmp_path)] == [
        (pair.source, pair.target) for pair in raw
    ]
    gold = {"source": "a.fr", "target": "a.en", "links": "gold", "format": "naacl", "base": 1, "swapped": True}
    config = {"gold": {"hansards": gold}, "train": {"both": train}}
    (links,) = common.read_text(config, ["hansards"], tmp_path).gold
    assert links.sure == {(1, 0)}
    experiment = {"gold": ["hansards"], "train": ["both"], "models": ["de-en"], "baselines": ["eflomal"]}
    found = [path.name for path in common.files_of(config, experiment, tmp_path)]
    assert found == ["a.fr", "a.en", "gold", "a.fr", "b.fr", "a.en", "b.en"]
