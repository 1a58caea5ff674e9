"""The links of a line depend on the line alone: not on the lines beside it, on their order, or on the program."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from align import Aligner, Alignment, Pair, load
from align.cli import main
from align.core.types import THRESHOLD
from align.models.folder import find_model
from align.models.model_toml import BETWEEN, ModelOptions, read_model_toml
from align.service.work import work_of
from tests import hugging, marian, toy
from tests.cli.conftest import Run
from tests.cli.conftest import run_main as run_main
from tests.conftest import example_pairs, shared_pairs
from tests.corpora import word_by_word
from tests.service.asked import asking

pytestmark = pytest.mark.usefixtures("one_thread")

NEAR = 1e-4
"""Scores as near to the threshold as this may come out on either side: batches sum in another order."""

Line = tuple[str, str]


def lines_of(pairs: Iterable[Pair]) -> list[Line]:
    return [(" ".join(pair.source), " ".join(pair.target)) for pair in pairs]


def assert_same(found: Mapping[Line, Mapping[Any, float]], expected: Mapping[Line, Mapping[Any, float]]) -> None:
    """Fail unless lines have the same links, near ties aside."""
    assert found.keys() <= expected.keys()
    for line, scores in found.items():
        for link in scores.keys() ^ expected[line].keys():
            score = scores.get(link, expected[line].get(link, 0.0))
            assert abs(score - THRESHOLD) < NEAR, (line, link, score)


def scores_of(alignments: Iterable[Alignment]) -> dict[Line, dict[Any, float]]:
    return {(" ".join(one.pair.source), " ".join(one.pair.target)): dict(one.scores) for one in alignments}


def in_files(lines: Sequence[Line], *sizes: int) -> Iterable[list[Line]]:
    """The same lines as files of these sizes, in another order each time."""
    for size in sizes:
        order = random.Random(size).sample(lines, len(lines))
        yield from (order[start : start + size] for start in range(0, len(lines), size))


@pytest.fixture(scope="module")
def lines() -> list[Line]:
    """Real sentences of the examples, and their first quarters and halves: enough to choose by."""
    parts = [
        Pair(pair.source[: -(-len(pair.source) // part)], pair.target[: -(-len(pair.target) // part)], 1)
        for pair in example_pairs()
        for part in (1, 2, 4)
    ]
    unique = list(dict.fromkeys(lines_of(parts)))
    return random.Random(1).sample(unique, len(unique))


@pytest.fixture(scope="module")
def alone(both_models: Aligner, lines: list[Line]) -> dict[Line, dict[Any, float]]:
    return scores_of(both_models.align(*line) for line in lines)


def test_in_python(both_models: Aligner, lines: list[Line], alone: dict[Line, dict[Any, float]]) -> None:
    assert sum(map(len, alone.values())) > 4 * len(lines)
    for file in in_files(lines, 10, len(lines)):
        assert_same(scores_of(both_models(file)), alone)
    assert_same(scores_of(both_models.fixed(lines[:60])(lines)), alone)


def test_in_real_text(both_models: Aligner) -> None:
    real = list(dict.fromkeys(lines_of(shared_pairs(120, "train"))))
    together = scores_of(both_models(real))
    assert_same(scores_of(both_models.align(*line) for line in real[::10]), together)
    for file in [*in_files(real, 60)][:2]:
        assert_same(scores_of(both_models(file)), together)


def test_in_programs(run_main: Run, lines: list[Line], alone: dict[Line, dict[Any, float]], tmp_path: Path) -> None:
    models = ("-m", "de-en", "--reverse-model", "en-de", "--device", "cpu", "--threads", "1", "-q")

    def read(file: Sequence[Line], rows: bytes) -> dict[Line, dict[Any, float]]:
        found = {}
        for line, row in zip(file, map(json.loads, rows.decode().splitlines()), strict=True):
            links = [link if isinstance(link, list) else [link["source"], link["target"]] for link in row["links"]]
            scores = row.get("scores") or [link["score"] for link in row["links"]]
            found[line] = {(i, j): score for (i, j), score in zip(links, scores, strict=True)}
        return found

    (tmp_path / "in").mkdir()
    for n, file in enumerate(in_files(lines, 30, len(lines))):
        text = "".join(f"{source}\t{target}\n" for source, target in file)
        result = run_main(main.main, *models, "-f", "jsonl", "--buffer", 7 if n % 2 else 2000, stdin=text)
        assert result.code == 0
        assert_same(read(file, result.out), alone)
        rows = (json.dumps({"source": source, "target": target}) + "\n" for source, target in file)
        (tmp_path / "in" / f"{n:02}.jsonl").write_text("".join(rows), encoding="utf-8")
    columns = ("--columns", "source,target")
    assert run_main(main.main, "jobs", tmp_path / "in" / "*.jsonl", "-o", tmp_path / "out", *columns, *models).code == 0
    for n, file in enumerate(in_files(lines, 30, len(lines))):
        assert_same(read(file, (tmp_path / "out" / f"{n:02}.jsonl").read_bytes()), alone)


def test_in_the_service(both_models: Aligner, lines: list[Line], alone: dict[Line, dict[Any, float]]) -> None:
    async def ask() -> None:
        async with asking(work_of(both_models.fixed(), "signature")) as client:
            for file in in_files(lines, 10, len(lines)):
                body = {
                    "pairs": [{"source": source, "target": target} for source, target in file],
                    "format": "pairs",
                    "scores": True,
                }
                replies = (await client.post("/align", json=body)).json()["pairs"]
                found = {
                    line: dict(zip(map(tuple, reply["links"]), reply["scores"], strict=True))
                    for line, reply in zip(file, replies, strict=True)
                }
                assert_same(found, alone)

    asyncio.run(ask())


def save_fairseq(folder: Path) -> ModelOptions:
    toy.save_model(folder)
    return ModelOptions()


def save_hugging_face(folder: Path) -> ModelOptions:
    hugging.save_model("m2m_100", folder)
    return hugging.options("m2m_100")


def save_marian(folder: Path) -> ModelOptions:
    folder.mkdir()
    items, settings = marian.make(marian.SHAPES["teacher"])
    marian.write_vocabulary(folder / "toy.vocab.yml")
    marian.write_npz(folder / "model.npz", items, settings)
    return ModelOptions(source_lang="de", target_lang="en", subwords="none")


@pytest.mark.parametrize("save", [save_fairseq, save_hugging_face, save_marian])
def test_of_a_model_that_describe_has_described(
    save: Callable[[Path], ModelOptions], run_main: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    options = save(folder)
    text = lines_of(word_by_word(120, seed=3))
    (tmp_path / "s").write_text("".join(f"{line[0]}\n" for line in text[:60]), encoding="utf-8")
    (tmp_path / "t").write_text("".join(f"{line[1]}\n" for line in text[:60]), encoding="utf-8")
    given = {"--source-lang": options.source_lang, "--target-lang": options.target_lang, "--subwords": options.subwords}
    arguments = [part for name, value in given.items() if value for part in (name, value)]
    described = ("-s", tmp_path / "s", "-t", tmp_path / "t")
    assert run_main(main.main, "models", "describe", folder, *described, *arguments).code == 0
    languages = ModelOptions(options.source_lang, options.target_lang)
    aligner = load(folder, device="cpu", options=languages)
    choice = aligner.forward.known_choice
    assert choice
    assert choice.reason == "the model's own calibration"
    together = scores_of(aligner(text))
    assert_same(scores_of(aligner.align(*line) for line in text[::3]), together)
    for file in in_files(text, 30):
        assert_same(scores_of(aligner(file)), together)
    result = run_main(main.main, "-m", folder, "--device", "cpu", *arguments[:4], stdin="das ||| the\n")
    assert f": {choice}\n" in result.err
    assert "choosing layer" not in result.err


def test_each_pair_of_languages_has_its_own(run_main: Run, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    save_hugging_face(folder)
    text = lines_of(word_by_word(60, seed=3))
    bitext = "".join(f"{source} ||| {target}\n" for source, target in text)
    for n, name in ((0, "s"), (1, "t")):
        (tmp_path / name).write_text("".join(f"{line[n]}\n" for line in text), encoding="utf-8")
    pair = ("--source-lang", "deu_Latn", "--target-lang", "eng_Latn")
    described = ("-s", tmp_path / "s", "-t", tmp_path / "t")
    assert run_main(main.main, "models", "describe", folder, *described, *pair).code == 0
    _, calibrations = read_model_toml(folder / "model.toml")
    assert list(calibrations) == [BETWEEN.join(pair[1::2])]
    assert "the model's own calibration" in run_main(main.main, "-m", folder, *pair, stdin=bitext).err
    back = (*pair[:1], pair[3], *pair[2:3], pair[1])
    err = run_main(main.main, "-m", folder, *back, stdin=bitext).err
    assert "choosing layer and head of huggingface:eng_Latn-deu_Latn" in err
    assert "on 60 pairs\n" in err
    command = "extract-align models describe MODEL --source-lang eng_Latn --target-lang deu_Latn -s FILE -t FILE"
    assert f"`{command}` stores layer and head for all texts" in err
    assert run_main(main.main, "models", "describe", folder, *described, *back).code == 0
    found = find_model(str(folder), ModelOptions())
    assert list(found.calibrations) == ["deu_Latn to eng_Latn", "eng_Latn to deu_Latn"]
    assert "the model's own calibration" in run_main(main.main, "-m", folder, *back, stdin=bitext).err
