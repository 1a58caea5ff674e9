"""Worker processes: what comes out is what one process makes, in the same order, and no process is left."""

from __future__ import annotations

import multiprocessing
import os
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from align import Aligner, Alignment, Direction, Pair, PairError, Search, Settings, load, translate, two_way
from align.core import aligner as aligners
from align.core.stream import chunks, in_order
from align.core.types import Batch, CrossAttention, TextWarning
from align.io import pool as workers
from align.io.pool import Workers, processes
from align.models import translate as translating
from tests import toy
from tests.known import RIGHT, KnownRecorder

pytestmark = pytest.mark.usefixtures("one_thread", "small_slices")

KNOWN = Settings(position="input", layer=RIGHT.layer, head=RIGHT.head, threshold=0.3)


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Slices that a few short lines make several of; and no process is left at the end."""
    monkeypatch.setattr(aligners, "SLICE_WORDS", 300)
    monkeypatch.setattr(aligners, "SHARED_BUFFER", 2)
    monkeypatch.setattr(translating, "SEARCH_WORDS", 100)
    yield
    assert not multiprocessing.active_children()


def numbers(count: int) -> list[tuple[str, str]]:
    """Pairs of a few words, a blank one among them, and one whose words have no piece."""
    text = [(" ".join(str(n + i) for i in range(1 + n % 7)), " ".join(str(n + i) for i in range(n % 7, -1, -1)))
            for n in range(count)]  # fmt: skip
    text[count // 3], text[count // 2] = ("", "1 2"), ("- -", "3")
    return text


class Told:
    """What an aligner says while it is at work."""

    def __init__(self) -> None:
        self.choices: list[Any] = []
        self.pairs = 0

    def choice(self, choices: Any) -> None:
        self.choices.append(choices)

    def batch(self, pairs: int) -> None:
        self.pairs += pairs


def both_ways(aligner: Any, align: Callable[[Any, Told], Iterator[Alignment]]) -> list[Alignment]:
    """Check that two workers find and say what one process does; returns it."""
    found = []
    for count in (1, 2):
        told = Told()
        one = replace(aligner, pool=processes(count))
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            alignments = list(align(one, told))
        doubts = [(str(warning.message), warning.filename) for warning in warned if warning.category is TextWarning]
        found.append(([(one.pair, one.scores, one.skipped) for one in alignments], told.choices, told.pairs, doubts))
    assert found[0] == found[1]
    return alignments


@pytest.mark.parametrize(("layer", "buffer"), [(RIGHT.layer, 2000), ("auto", 150)])
def test_workers_find_what_one_process_does(layer: Any, buffer: int) -> None:
    aligner = Aligner(
        Direction(KnownRecorder(), replace(KNOWN, layer=layer, head="auto", threshold=0.1)), buffer=buffer
    )
    text = [("-7 -7 -7 -7 -7 -7", "-7 -7"), *numbers(400)]  # unknown pieces, which are warned about where they are many
    found = both_ways(aligner, lambda one, told: one(text, told.choice, told.batch))
    assert [one.pair.id for one in found] == list(range(1, 402))
    odd = both_ways(aligner, lambda one, told: one([("-7 -7 -7", "-7 -7")] * 200, told.choice, told.batch))
    assert len(odd) == 200
    two = two_way(aligner, aligner, "grow-diag")
    both_ways(two, lambda one, told: one(text, told.choice, told.batch))
    both_ways(replace(two, method="soft"), lambda one, told: one(text, told.choice, told.batch))
    sentences = [source for source, _ in numbers(300)]
    found = both_ways(aligner, lambda one, told: translate(one, sentences, Search(beam=1), told.choice, told.batch))
    assert found[6].pair == Pair(("6", "7", "8", "9", "10", "11", "12"), ("12", "11", "10", "9", "8", "7", "6"), 7)


@pytest.mark.parametrize("too_long", ["stop", "blank"])
def test_a_pair_that_is_too_long_comes_after_those_before_it(too_long: Any) -> None:
    def text() -> Iterator[tuple[str, str]]:
        yield from numbers(370)
        yield "1 " * 200, "1"
        yield from numbers(60)
        yield "1", "1 " * 200
        raise ValueError("no more")

    for buffer in (2000, 100):
        one = Aligner(Direction(KnownRecorder(), KNOWN), buffer=buffer, too_long=too_long)
        for aligner in (one, two_way(one, one)):
            expected: list[Alignment] = []
            with pytest.raises(ValueError, match=r"(200|201) pieces|no more") as stopped:
                expected.extend(aligner(text()))
            shared = replace(one, pool=processes(2))
            found: list[Alignment] = []
            with pytest.raises(type(stopped.value), match=str(stopped.value).replace("(", ".").replace(")", ".")):
                found.extend((shared if aligner is one else two_way(shared, one))(text()))
            assert len(found) == (370 if too_long == "stop" else 432)
            assert found == expected


class Failing(KnownRecorder):
    """Is killed, or raises, where a sentence holds a certain number."""

    def record(self, batch: Batch, layers: Sequence[int]) -> Iterator[CrossAttention]:
        if (batch.source == 1010).any():
            os.kill(os.getpid(), signal.SIGKILL)
        if (batch.source == 2010).any():
            raise RuntimeError("out of memory, say")
        return super().record(batch, layers)


def test_a_worker_that_is_killed_or_fails_ends_the_call() -> None:
    aligner = Aligner(Direction(Failing(), KNOWN), pool=processes(2), buffer=200)
    with pytest.raises(ChildProcessError, match=r"^a worker process was killed \(SIGKILL\); if memory is short, fewer"):
        list(aligner([*numbers(500), ("1000", "1"), *numbers(500)]))
    found: list[Alignment] = []
    with pytest.raises(RuntimeError, match="out of memory, say"):
        found.extend(aligner([*numbers(500), ("2000", "1"), *numbers(500)]))
    assert len(found) == 400


def test_a_daemon_which_may_have_no_children_runs_the_tasks_itself() -> None:
    aligner = Aligner(Direction(KnownRecorder(), KNOWN), pool=processes(2), buffer=200)
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=lambda: sender.send(list(map(str, aligner(numbers(400))))), daemon=True)
    process.start()
    assert receiver.poll(60)
    assert receiver.recv() == list(map(str, replace(aligner, pool=processes(1))(numbers(400))))
    process.join()


def test_started_anew_workers_load_the_model_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "METHOD", "spawn")
    toy.save_trained_model(tmp_path / "toy")
    aligner = load(tmp_path / "toy", device="cpu", layer=1, head=1, position="input")
    sentences = [" ".join(toy.SOURCE_WORDS[: 1 + n % 6]) for n in range(100)]
    both_ways(aligner, lambda one, told: translate(one, sentences, Search(beam=1), told.choice, told.batch))


def double(items: Sequence[Pair], on_batch: Any) -> list[Any]:
    """A task that takes each pair's number twice, and refuses every seventh of those without a source."""
    on_batch(len(items))
    return [PairError("no", line=one.id) if not one.source and one.id % 7 == 0 else 2 * one.id for one in items]


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=60), st.integers(1, 20), st.integers(1, 40))
def test_what_workers_do_comes_in_order(lengths: list[tuple[int, int]], buffer: int, words: int) -> None:
    pairs = [Pair(("x",) * a, ("y",) * b, n) for n, (a, b) in enumerate(lengths, 1)]
    bad = next((one.id for one in pairs if not one.source and one.target and one.id % 7 == 0), None)
    for count in (1, 3):
        told, found = Told(), []
        with Workers(count, {"double": double}, told.batch) as some:
            buffers = ((chunk, ()) for chunk in chunks(pairs, buffer))
            with pytest.raises(PairError) if bad else nullcontext():
                found.extend(in_order(some, "double", words, buffers))
        expected = [(one, 2 * one.id if one.source or one.target else None) for one in pairs[: bad and bad - 1]]
        assert found == expected
        assert bad or told.pairs == sum(outcome is not None for _, outcome in expected)
