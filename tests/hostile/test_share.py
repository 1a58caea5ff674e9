"""What threads and forked processes may share."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from align import Aligner, Direction, ModelOptions, Pair, Settings, translate, two_way
from align.core.types import Search
from align.models.fairseq.model import load_fairseq
from align.models.folder import find_model
from tests import toy

TOY_PAIRS = [("das haus ist alt", "the house is old"), ("wir sehen das haus", "we see the house")]
TOY_PAIRS += [("haus ist gross und", "old is house big"), ("das ist es", "it is it now"), ("alt", "old")]
"""Some of one length: these can get each other's attention without any shape telling."""


def share(align: Callable[..., Any], calls: int) -> None:
    """Call from many threads at once, which take turns as often as they can; each gets its own links."""
    expected = {pair: str(align(*pair)) for pair in TOY_PAIRS}
    order = random.Random(1).choices(TOY_PAIRS, k=calls)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(lambda pair: str(align(*pair)), order))
    finally:
        sys.setswitchinterval(interval)
    assert found == [expected[pair] for pair in order]


@pytest.mark.usefixtures("one_thread")
def test_threads_that_share_two_models_and_translate_get_their_own(tmp_path: Path) -> None:
    folders = toy.save_trained_model(tmp_path / "forward"), toy.save_reverse_model(tmp_path / "reverse")
    recorders = [load_fairseq(find_model(str(folder), ModelOptions())) for folder in folders]
    forward, reverse = (Aligner(Direction(recorder, Settings(layer=1, head=1))) for recorder in recorders)
    both = two_way(forward, reverse)

    def translate_or_align(source: str, target: str) -> Any:
        if len(source) % 2:
            return next(translate(both, [source], Search(beam=3))).pair.target
        return both.align(source, target)

    share(forward.align, 400)
    share(translate_or_align, 80)


FORK = """
import os, signal, sys, torch
from align import load
torch.set_num_threads(2)
aligner = load("de-en", layer=1, head=1, device="cpu")
pairs = [("das haus ist alt . " * 6, "the house is old . " * 6)] * 10
expected = [str(alignment) for alignment in aligner(pairs)]  # on two threads, which a child does not have
child = os.fork()
if child == 0:
    signal.alarm(60)  # a child that hangs is to be seen
    os._exit([str(alignment) for alignment in aligner(pairs)] != expected)
sys.exit(os.waitpid(child, 0)[1] != 0)
"""


def test_a_child_aligns_after_a_fork() -> None:
    result = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr


def test_an_aligner_survives_calls_that_are_given_up(toy_recorder: Callable[..., Any]) -> None:
    aligner = Aligner(Direction(toy_recorder(), Settings(layer=1, head=1)), buffer=1)
    expected = str(aligner.align(*TOY_PAIRS[0]))
    for _ in range(5):
        next(aligner(Pair(tuple(s.split()), tuple(t.split()), 1) for s, t in TOY_PAIRS))  # and never asked again
    assert str(aligner.align(*TOY_PAIRS[0])) == expected
