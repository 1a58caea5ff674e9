"""What the commands of `eval/run.py` measure, against counting by hand."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from align import Gold, Pair
from tests.conftest import ROOT, needs_fast_align

pytestmark = pytest.mark.usefixtures("one_thread")

LINK = st.tuples(st.integers(0, 2), st.integers(0, 2))
SCORED = st.dictionaries(LINK, st.floats(0.01, 1))
SENTENCES = st.lists(st.tuples(SCORED, st.frozensets(LINK, min_size=1)), min_size=1, max_size=4)
LINKS = st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=8)


@pytest.fixture(scope="module")
def modules() -> Any:
    """The modules of eval/ by name."""
    names = (
        "worth",
        "spans",
        "benchmark_memory",
        "serve_load",
        "kill_shards",
        "baselines",
        "common",
        "programs",
        "unspaced",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "eval"))
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in names})


@given(text=SENTENCES, least=st.floats(0.1, 1))
def test_the_other_measure_at_a_threshold_is_that_of_the_links_above_it(modules: Any, text: Any, least: float) -> None:
    scored = [links for links, _ in text]
    gold = [Gold(sure, sure) for _, sure in text]
    once = np.ones(len(text), np.int64)
    curve = modules.worth.Curve(scored, gold)
    wanted = sum(len(sure) for _, sure in text)

    def shares(threshold: float) -> tuple[float, float]:
        kept = [{link for link, score in links.items() if score >= threshold} for links in scored]
        right = sum(len(some & sure) for some, (_, sure) in zip(kept, text, strict=True))
        return right / max(1, sum(map(len, kept))), right / wanted

    precision, threshold = curve.precision_at(least, once)
    thresholds = sorted({score for links in scored for score in links.values()})
    reaching = [one for one in thresholds if shares(one)[1] >= least]
    assert (threshold == max(reaching)) if reaching else np.isnan(threshold)
    assert not reaching or precision == pytest.approx(shares(threshold)[0])
    recall, threshold = curve.recall_at(least, once)
    keeping = [one for one in thresholds if shares(one)[0] >= least]
    assert (threshold == min(keeping)) if keeping else np.isnan(threshold)
    assert not keeping or recall == pytest.approx(shares(threshold)[1])


def test_a_sentence_drawn_twice_counts_twice(modules: Any) -> None:
    scored = [{(0, 0): 0.9, (1, 1): 0.4}, {(0, 0): 0.8}]
    gold = [Gold(frozenset({(0, 0)}), frozenset({(0, 0)})), Gold(frozenset({(1, 1)}), frozenset({(1, 1)}))]
    precision, recall = modules.worth.Curve(scored, gold)(np.array([2, 1]))
    assert precision.tolist() == pytest.approx([1, 2 / 3, 2 / 5])
    assert recall.tolist() == pytest.approx([2 / 3, 2 / 3, 2 / 3])


def test_word_classes(modules: Any) -> None:
    words = ("»", "Today", "the", "Council", "of", "2004", "voted", "n't", "–")
    found = [modules.worth.word_class(words, place, frozenset({"the", "of", "today"})) for place in range(len(words))]
    classes = ["punctuation", "function word", "function word", "name", "function word", "number", "content word"]
    assert found == [*classes, "content word", "punctuation"]


def test_every_link_is_in_one_part_of_each_kind(modules: Any) -> None:
    pair = Pair(("a",) * 12, tuple("b1, Bb"), 1)
    for parts, link in product(modules.worth.PARTS.values(), product(range(12), range(6))):
        assert sum(belongs(pair, frozenset("b"), link) for belongs in parts.values()) == 1


@given(links=LINKS)
def test_windows_are_runs_that_nothing_else_is_linked_with(modules: Any, links: frozenset[tuple[int, int]]) -> None:
    found = modules.spans.windows_of(Gold(links, links), 5)
    for span in ((a, b) for a, b in product(range(5), range(1, 6)) if a < b):
        targets = {j for i, j in links if span[0] <= i < span[1]}
        sources = {i for i, j in links if j in targets}
        edges = {span[0], span[1] - 1} <= {i for i, _ in links}
        closed = bool(targets) and sources <= set(range(*span)) and len(targets) == max(targets) - min(targets) + 1
        assert (span in found) == (edges and closed)
        assert span not in found or found[span] == (min(targets), max(targets) + 1)


@given(links=LINKS)
def test_points_are_places_that_no_link_crosses(modules: Any, links: frozenset[tuple[int, int]]) -> None:
    found = modules.spans.points_of(Gold(links, links), Pair(tuple("abcde"), tuple("vwxyz"), 1))
    for at in range(1, 5):
        places = [k for k in range(6) if all((i < at) == (j < k) for i, j in links)]
        assert (at in found) == bool(links and places)
        assert at not in found or found[at] == (places[0], places[-1])


FAMILY = """
import os, sys, time
shared, own = (int(size) for size in sys.argv[1:])
kept = bytearray(shared)
if os.fork() and os.fork():
    os.wait(), os.wait()
else:
    kept = kept, bytearray(own)
    time.sleep(2)
"""
"""A process and two children, with memory that they share and memory that each child has."""


def test_memory_of_several_processes_is_summed_and_shared_memory_counted_once(modules: Any) -> None:
    sizes = ((0, 0), (100 * 2**20, 0), (100 * 2**20, 50 * 2**20))
    peaks = [modules.benchmark_memory.peak_of_all([sys.executable, "-IS", "-c", FAMILY, *map(str, s)]) for s in sizes]
    small, shared, own = peaks
    assert small < 60
    assert shared - small == pytest.approx(100, abs=5)
    assert own - shared == pytest.approx(2 * 50, abs=5)


def test_a_process_is_timed_to_its_first_line_and_to_its_end(modules: Any) -> None:
    script = "import time; print('links', flush=True); time.sleep(0.3); sum(range(3_000_000)); print('more')"
    found = modules.programs.run_python(["-c", script])
    assert 0 < found.first < found.seconds - 0.3
    assert found.cpu > 0.01
    with pytest.raises(ChildProcessError, match="exit code 1: ValueError: no"):
        modules.programs.run_python(["-c", "raise ValueError('no')"])


def test_other_answers_of_a_service_are_wrong(modules: Any, capsys: pytest.CaptureFixture[str]) -> None:
    load = modules.serve_load
    known = load.Known({}, "ok", [[0, 0]], [0.5])
    right = {"status": "ok", "links": [[0, 0]], "scores": [0.5004]}
    assert known.is_in(right)
    for other in ({"scores": [0.502]}, {"links": [[0, 1]]}, {"status": "too long"}):
        assert not known.is_in({**right, **other})
    tally = load.Tally()
    asked = load.ask("http://127.0.0.1:1", [known], 0, load.time.monotonic() + 0.2, tally)  # nothing listens there
    asyncio.run(asked)
    assert (tally.wrong > 0, tally.seconds) == (True, [])
    assert capsys.readouterr().err.count("wrong: ConnectError") == 5


def test_files_that_differ_that_were_written_twice_and_that_are_left(modules: Any, tmp_path: Path) -> None:
    jobs = modules.kill_shards.Killed("local", tmp_path, [], {"0.tsv": b"0-0\n", "1.tsv": b"1-1\n"})
    out, record = tmp_path / "local", tmp_path / "local" / "_run" / "0.tsv.json"
    record.parent.mkdir(parents=True)

    def look(ended: bool) -> dict[str, int]:
        jobs.counts.clear()
        jobs._look(ended)
        return {name: count for name, count in jobs.counts.items() if count}

    (out / "0.tsv").write_bytes(b"0-0\n")
    record.touch()
    assert look(ended=False) == {}
    os.utime(record, ns=(0, 0))
    assert look(ended=False) == {"twice": 1}
    (out / "0.tsv").write_bytes(b"0-1\n")
    assert look(ended=False) == {"differences": 1}
    (out / "2.tsv").touch()
    (out / "_run" / "1.tsv.part").touch()
    assert look(ended=True) == {"differences": 2, "left": 2, "jobs": 1}  # 1.tsv is missing


@needs_fast_align
def test_links_of_statistical_aligners_are_kept(data: Path, modules: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    baselines, common = modules.baselines, modules.common
    config = common.read_config(data / "experiments.toml")
    text, about = common.read_text(config, ["toy"], data), config["train"]["toy"]
    kept = baselines.Baselines(data, data / "kept")
    found = kept.align("fast_align", about, text)
    assert found == baselines.Baselines(data).align("fast_align", about, text)
    (file,) = (data / "kept").iterdir()
    assert file.read_text(encoding="ascii").startswith(f"# {found.tool}\n")
    without = [(frozenset(), frozenset())] * len(text.pairs)
    monkeypatch.setattr(baselines, "align_with", lambda *_, **__: iter(without))
    assert kept.align("fast_align", about, text) == found
    pieces = common.load_model("models/one", data).forward.recorder
    assert kept.align("fast_align", about, text, pieces).links == without  # of pieces: another file
    assert len(list((data / "kept").iterdir())) == 2
    monkeypatch.setattr(baselines, "describe_tool", lambda tool: f"{tool}:newer")
    assert kept.align("fast_align", about, text) == ("fast_align:newer", without)
    file.write_text("# fast_align:newer\n" + "0-0\t0-0\n" * (len(text.pairs) + 1), encoding="utf-8")
    with pytest.raises(ValueError, match=r"links cannot be used \(.*the text has.*\): remove it"):
        kept.align("fast_align", about, text)


def test_words_are_linked_if_any_of_their_parts_are(modules: Any) -> None:
    pair = Pair(("2001", "年", "に", "行な", "っ", "た", "."), ("in", "2001", "it", "was", "done", "."), 1)
    characters = modules.unspaced.by_characters(pair)
    assert characters == Pair(("2001", "年", "に", "行", "な", "っ", "た", "."), pair.target, 1)
    parts = Pair(("2001年", "に", "行なった."), ("in", "2001", "it", "was", "done."), 1)
    links = frozenset({(0, 1), (1, 0), (2, 4)})
    verb = {(word, other) for word in (3, 4, 5, 6) for other in (4, 5)}
    assert modules.unspaced.to_words(links, parts, pair) == {(0, 1), (1, 1), (2, 0)} | verb
    assert modules.unspaced.to_words(frozenset({(3, 4), (4, 4)}), characters, pair) == {(3, 4)}


def test_text_of_several_files_and_gold_whose_target_comes_first(modules: Any, tmp_path: Path) -> None:
    common = modules.common
    texts = {"a.fr": "Le chat.\n", "b.fr": "Oui !\n", "a.en": "The cat.\n", "b.en": "Yes!\n", "gold": "1 1 2 S\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    train = {"source": ["a.fr", "b.fr"], "target": ["a.en", "b.en"], "languages": ["fr", "en"]}
    raw = [Pair(("Le", "chat."), ("The", "cat."), 1), Pair(("Oui", "!"), ("Yes!",), 2)]
    assert list(common.read_train(train, tmp_path, tokenize=False)) == raw
    tokens = [Pair(("le", "chat", "."), ("the", "cat", "."), 1), Pair(("oui", "!"), ("yes", "!"), 2)]
    assert list(common.read_train(train, tmp_path)) == tokens
    gold = {"source": "a.fr", "target": "a.en", "links": "gold", "format": "naacl", "base": 1, "swapped": True}
    config = {"gold": {"hansards": gold}, "train": {"both": train}}
    (links,) = common.read_text(config, ["hansards"], tmp_path).gold
    assert links.sure == {(1, 0)}
    experiment = {"gold": ["hansards"], "train": ["both"], "models": ["de-en"], "baselines": ["eflomal"]}
    found = [path.name for path in common.files_of(config, experiment, tmp_path)]
    assert found == ["a.fr", "a.en", "gold", "a.fr", "b.fr", "a.en", "b.en"]
