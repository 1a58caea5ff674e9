"""The bundled model behind the service gives what the programs give, however many ask at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra [serve]")

from align import Aligner, Alignment, Direction, Pair, Settings, load, two_way
from align.cli import extract, transfer
from align.io.session import Session
from align.service import rounds
from align.service.work import Work, work_of
from tests.cli.conftest import Result
from tests.cli.conftest import run_main as run_main
from tests.conftest import example_pairs
from tests.service.asked import asking, pairs, run

pytestmark = pytest.mark.usefixtures("one_thread")

SIDES = [(" ".join(pair.source), " ".join(pair.target)) for pair in example_pairs()]
TAGGED = [
    ("Das <b>Haus</b> ist <i>alt</i>.", "The house is old."),
    ("Wir haben <x id='1'/>heute &amp; hier Zeit.", "We have time today &amp; here."),
]


@pytest.fixture(scope="module")
def work() -> Work:
    return work_of(load("de-en", device="cpu", too_long="blank").fixed(), "signature")


def test_many_at_once_have_the_links_of_the_program(
    work: Work, run_main: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "ROUND_PAIRS", 8)

    async def ask() -> list[Any]:
        async with asking(work) as client:
            bodies = [pairs(side) for side in SIDES] + [pairs(*SIDES), pairs(*SIDES[::-1])]
            answers = await asyncio.gather(*(client.post("/align", json=body) for body in bodies))
            return [[pair["links"] for pair in answer.json()["pairs"]] for answer in answers]

    *single, forward, backward = run(ask)
    text = "".join(f"{source} ||| {target}\n" for source, target in SIDES)
    lines = run_main(extract.main, "-q", "-m", "de-en", "--device", "cpu", stdin=text).out.decode().splitlines()
    assert [line for (line,) in single] == forward == backward[::-1] == lines


def test_tags_are_where_the_program_puts_them(work: Work, run_main: Callable[..., Result]) -> None:
    async def ask() -> Any:
        async with asking(work) as client:
            return (await client.post("/transfer", json=pairs(*TAGGED))).json()["pairs"]

    text = "".join(f"{source} ||| {target}\n" for source, target in TAGGED)
    result = run_main(transfer.main, "-q", "-m", "de-en", "--tags", "xml", "--device", "cpu", stdin=text)
    assert [one["target"] for one in run(ask)] == result.out.decode().splitlines()


@pytest.mark.parametrize("tags", [None, "xml"])
def test_translations_are_those_of_the_program(work: Work, run_main: Callable[..., Result], tags: str | None) -> None:
    sources = [source for source, _ in TAGGED] if tags else [source for source, _ in SIDES[:3]]

    async def ask() -> Any:
        async with asking(work) as client:
            body = {"pairs": [{"source": source} for source in sources], "tags": tags}
            return (await client.post("/translate", json=body)).json()["pairs"]

    main, options = (transfer.main, ("--tags", tags)) if tags else (extract.main, ())
    text = "".join(f"{source}\n" for source in sources)
    lines = run_main(main, "-q", "--translate", *options, "--device", "cpu", stdin=text).out.decode().splitlines()
    assert [pair["target"] if tags else f"{pair['target']} ||| {pair['links']}" for pair in run(ask)] == lines


def aligned(session: Session, pairs: Sequence[Pair]) -> list[Alignment]:
    return [alignment for _, (alignment,) in session.results(pairs, lambda pair: [pair])]


@pytest.mark.filterwarnings("ignore::align.core.types.TextWarning")  # the same model for both directions
@pytest.mark.parametrize("method", ["soft", "grow-diag-final-and"])
def test_two_models(recorder: Any, method: str) -> None:
    aligner = Aligner(Direction(recorder, Settings(threshold=None)), too_long="blank")
    both = two_way(aligner, aligner, method).fixed()
    found = work_of(both, "signature")
    given = example_pairs()[:3]
    assert [str(one) for one in aligned(found.links, given)] == [str(one) for one in both(given)]
    soft = replace(both, method="soft", threshold=0.5)
    scores = [one.scores for one in soft(given)]
    for_tags = [one.scores for one in aligned(found.tags, given)]
    assert [{link: one[link] for link in one if one[link] > 0.5} for one in for_tags] == scores
    assert found.models == [recorder.name] * 2
