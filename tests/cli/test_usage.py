"""How all programs answer on the command line: wrong usage, what they say of themselves, manual pages, completion."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from argparse import SUPPRESS
from collections.abc import Callable
from configparser import ConfigParser
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

import align
from align.cli.about import CITATION, LANGUAGES, SHELLS, bundled_models
from align.cli.manual import PROGRAMS, main, manual_page
from align.cli.parser import Parser
from align.core.symmetrize import DIRECTIONS, METHODS, SOFT
from align.models.folder import BUNDLED
from tests.cli.conftest import Result, printed
from tests.conftest import ROOT

each_program = pytest.mark.parametrize("program", PROGRAMS)


@pytest.fixture
def run(run_main: Callable[..., Result]) -> Callable[..., Result]:
    """Runs a program by its name."""
    return lambda program, *arguments, **named: run_main(import_module(PROGRAMS[program]).main, *arguments, **named)


def test_programs_are_those_that_are_installed() -> None:
    configuration = ConfigParser()
    configuration.read(ROOT / "setup.cfg")
    installed = configuration["options.entry_points"]["console_scripts"].split("\n")[1:]
    assert installed == [f"{name} = {module}:main" for name, module in PROGRAMS.items()]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("combine-align a b c", "unrecognized arguments: c"),
        ("combine-align a b c\nd\33[1m", r"unrecognized arguments: c\nd\x1b[1m"),
        ("extract-align a --symetrize=soft", "unrecognized arguments: --symetrize=soft; did you mean --symmetrize?"),
        ("extract-align --sym soft", "unrecognized arguments: --sym; did you mean --symmetrize?"),
        ("extract-align --bad 2", "unrecognized arguments: --bad; did you mean --bad-lines or --bad-lines-file?"),
        ("extract-align --frobnicate", "unrecognized arguments: --frobnicate"),
        ("baseline-align giza a --tread 2", "unrecognized arguments: --tread 2; did you mean --threads?"),
        ("eval-align -g a b --fmt tsv", "unrecognized arguments: --fmt tsv; did you mean --format?"),
        ("eval-align a", "the following arguments are required: -g/--gold"),
        ("sweep-align --output", "argument -o/--output: expected one argument"),
        ("extract-align a --source-lang ../x", "argument --source-lang: '../x' is not a language code such as 'de'"),
        (
            "extract-align a --reverse-target-lang a/b",
            "argument --reverse-target-lang: 'a/b' is not a language code such as 'de'",
        ),
        ("sweep-align --null x", "argument --null: invalid choice: 'x' (choose from 'eos', 'mask', 'none')"),
    ],
)
def test_wrong_usage_is_its_reason_and_a_hint(run: Callable[..., Result], command: str, reason: str) -> None:
    program, *arguments = command.split(" ")
    result = run(program, *arguments)
    error = f"{program}: error: {reason}\n{program} --help lists all options\n"
    assert (result.code, result.out) == (2, b"")
    assert result.err.replace("choose from eos, mask, none", "choose from 'eos', 'mask', 'none'") == error


@each_program
def test_an_empty_value_is_wrong_usage(run: Callable[..., Result], program: str) -> None:
    """As of a variable that is not set; the default would give a result that nobody asked for."""
    parser = import_module(PROGRAMS[program]).build_parser()
    for action in parser._actions:
        if action.option_strings and action.nargs in (None, "?") and action.dest != "source_prefix":
            flag = action.option_strings[-1]
            result = run(program, f"{flag}=")
            assert (result.code, result.out) == (2, b""), flag
            assert f"{flag}: " in result.err, flag


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("extract-align a --scores -f giza", "--scores has no effect with -f giza, which has no room for them"),
        ("extract-align a --scores -f jsonl", "--scores has no effect with -f jsonl, which always has them"),
        ("extract-align a --words pieces --translate", "--words pieces cannot be combined with --translate"),
        (
            "extract-align a --words characters --reverse-model b",
            "--words characters cannot be combined with --reverse-model",
        ),
        ("extract-align a -o b --signature", "--output has no effect with --signature, which stdout gets"),
        ("extract-align a --resume", "--resume requires -o FILE"),
        ("extract-align a --symmetrize soft", "--symmetrize requires --reverse-model"),
        ("extract-align a --reverse-layer auto", "--reverse-layer requires --reverse-model"),
        ("extract-align a --reverse-head 1", "--reverse-head requires --reverse-model"),
        (
            "extract-align a --reverse-model b --symmetrize forward --reverse-layer 1",
            "--reverse-layer has no effect with --symmetrize forward",
        ),
        (
            "extract-align a --reverse-model b --symmetrize reverse --head 1",
            "--head has no effect with --symmetrize reverse",
        ),
        ("extract-align a --beam 5", "--beam requires --translate"),
        ("extract-align a --subwords none --subwords-file b", "--subwords-file has no effect with --subwords none"),
        ("sweep-align a --subwords none --subwords-file b", "--subwords-file has no effect with --subwords none"),
        ("sweep-align a --gold-base 0", "--gold-base requires -g"),
        ("sweep-align a --gold-format talp", "--gold-format requires -g"),
        ("sweep-align a --gold-swapped", "--gold-swapped requires -g"),
        ("sweep-align a --out-of-range stop", "--out-of-range requires -g"),
        ("sweep-align a --samples 1000", "--samples requires -g"),
        ("sweep-align a -g b --samples 0 --seed 1", "--seed has no effect without samples"),
        ("sweep-align a -g b --per-sentence", "--per-sentence requires -o and -g"),
        ("eval-align -g a b --out-of-range stop", "--out-of-range needs the text: -s and -t"),
        ("eval-align -g a b --samples 0 --seed 1", "--seed has no effect without samples"),
        ("eval-align -g a b c --samples 0 --paired bootstrap", "--paired has no effect without samples"),
        ("eval-align -g a b --paired bootstrap", "--paired compares systems: name two files or more"),
        (
            "eval-align -g a b c --per-sentence --paired bootstrap",
            "--paired applies to the summary only: not with --per-sentence, --errors or --brief",
        ),
        (
            "eval-align -g a b --errors 1 --samples 1",
            "--samples applies to the summary only: not with --per-sentence, --errors or --brief",
        ),
        (
            "eval-align -g a b -b --seed 1",
            "--seed applies to the summary only: not with --per-sentence, --errors or --brief",
        ),
        ("eval-align -g a b -b -f text", "--format has no effect with --brief, which prints plain numbers"),
        ("combine-align a b -o c --signature", "--output has no effect with --signature, which stdout gets"),
        ("baseline-align giza a -o c --signature", "--output has no effect with --signature, which stdout gets"),
        ("baseline-align giza a --append-test", "--append-test requires --train-source and --train-target"),
        (
            "baseline-align --case keep eflomal a",
            "--case keep has no effect: this tool lower-cases words itself",
        ),
    ],
)
def test_what_would_do_nothing_is_refused(run: Callable[..., Result], command: str, reason: str) -> None:
    program, *arguments = command.split(" ")
    error = f"{program}: error: {reason}\n{program} --help lists all options\n"
    assert run(program, *arguments) == (2, b"", error)


def test_hidden_options_are_not_proposed(capsys: pytest.CaptureFixture[str]) -> None:
    parser = Parser(prog="x")
    parser.add_argument("--hidden", help=SUPPRESS)
    with pytest.raises(SystemExit):
        parser.parse_args(["--hiden"])
    assert capsys.readouterr().err == "x: error: unrecognized arguments: --hiden\nx --help lists all options\n"


# What they say of themselves


@each_program
def test_cite(run: Callable[..., Result], program: str) -> None:
    printed(run(program, "--cite"), *CITATION.splitlines())


def test_bibtex_and_citation_file_say_the_same() -> None:
    software: Any = OmegaConf.load(ROOT / "CITATION.cff")
    paper = software["preferred-citation"]

    def joined(authors: Any) -> str:
        names = (one.get("name") or f"{one['family-names']}, {one['given-names']}" for one in authors)
        return " and ".join(names)

    expected = [
        {
            "title": paper.title,
            "author": joined(paper.authors),
            "booktitle": paper["collection-title"],
            "year": str(paper.year),
            "pages": f"{paper.start}--{paper.end}",
            "doi": paper.doi,
        },
        {"title": software.title, "author": f"{{{joined(software.authors)}}}", "note": f"Version {software.version}"},
    ]
    entries = CITATION.split("\n\n")
    assert [dict(re.findall(r"^  (\w+) = \{(.*)\},$", entry, re.MULTILINE)) for entry in entries] == expected
    assert software.version == align.__version__


def test_list_models(run: Callable[..., Result]) -> None:
    result = run("extract-align", "--list-models")
    assert run("sweep-align", "--list-models") == result
    models = result.out.decode().split("\n\n")
    assert [model.split("\n")[0] for model in models] == ["de-en  German to English", "en-de  English to German"]
    assert models[0].split("\n")[1:] == [
        "  size: 7.59 M parameters, 15.2 MB, half precision",
        "  trained on: 169,312 pairs, 4,381,040 target pieces; 63,026 pairs left out",
        f"  {BUNDLED / 'de-en'}",
    ]
    assert {language for name in bundled_models() for language in name.split("-")} <= LANGUAGES.keys()


def test_answers_go_to_stdout_or_fail() -> None:
    command = [sys.executable, "-m", "align", "--cite"]
    with open("/dev/full", "wb") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    error = "extract-align: error: stdout: cannot write: No space left on device\n"
    assert (result.returncode, result.stderr) == (1, error)


# Manual pages


@each_program
def test_manual_pages_are_of_these_options(program: str) -> None:
    """If not: `python -m align.cli.manual man`."""
    page = manual_page(program, import_module(PROGRAMS[program]).build_parser())
    assert (ROOT / "man" / f"{program}.1").read_text(encoding="utf-8") == page


def test_manual_pages_are_written(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in (ROOT / "man").iterdir()}


@pytest.mark.skipif(not shutil.which("groff"), reason="needs groff")
@each_program
def test_manual_pages_can_be_read(program: str) -> None:
    command = ["groff", "-man", "-ww", "-Tascii", "-P-cbou", str(ROOT / "man" / f"{program}.1")]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert shown.stderr == ""
    assert f"\n       {program} - " in shown.stdout
    assert "\n       -h, --help\n              show this help" in shown.stdout
    assert not re.search(r"\\f|\\\(|`", shown.stdout)
    assert max(map(len, shown.stdout.splitlines())) <= 80


# Completion


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], set[str]]:
    """What bash offers at the end of a command line, in a folder with a file and a folder."""
    folder = tmp_path_factory.mktemp("completion")
    (folder / "text").touch()
    (folder / "folder").mkdir()

    def offered(line: str) -> set[str]:
        words = line.split(" ")
        script = folder / f"{words[0]}.bash"
        if not script.exists():
            command = [sys.executable, "-m", PROGRAMS[words[0]], "--print-completion", "bash"]
            script.write_bytes(subprocess.run(command, capture_output=True, check=True).stdout)
        function = f"_shtab_{words[0].replace('-', '_')}"
        ask = f'source "{script}"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); {function}; echo "${{COMPREPLY[@]}}"'
        shell = ["bash", "-c", ask, "bash", *words]
        shown = subprocess.run(shell, cwd=folder, capture_output=True, text=True, check=True)
        assert shown.stderr == ""
        return set(shown.stdout.split()) - {path.name for path in folder.glob("*.bash")}

    return offered


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("extract-align --sym", {"--symmetrize"}),
        ("extract-align -q --symmetrize ", {SOFT, *METHODS, *DIRECTIONS}),
        ("extract-align -m ", {*bundled_models(), "text", "folder"}),
        ("extract-align --reverse-model en", {"en-de"}),
        ("extract-align --dictionaries ", {"folder"}),
        ("extract-align --list", {"--list-models"}),
        ("extract-align ", {"serve", "text", "folder"}),
        ("extract-align text ", {"text", "folder"}),
        ("extract-align serve --token-", {"--token-file"}),
        ("extract-align --inp", {"--input"}),
        ("extract-align --input te", {"text"}),
        ("extract-align --input text --eng", {"--engine"}),
        ("extract-align --engine ", {"local", "ray"}),
        ("extract-align -q -s ", {"text", "folder"}),
        ("baseline-align ", {"fast_align", "eflomal", "giza"}),
        ("baseline-align giza te", {"text"}),
        ("baseline-align giza --pieces de", {"de-en"}),
        ("combine-align te", {"text"}),
        ("combine-align text te", {"text"}),
        ("eval-align -g text te", {"text"}),
        ("eval-align --paired ", {"bootstrap", "permutation"}),
        ("sweep-align -g te", {"text"}),
        ("sweep-align --plots fo", {"folder"}),
        ("view-align te", {"text"}),
        ("view-align text -m ", {*bundled_models(), "text", "folder"}),
    ],
)
def test_completion_in_bash(complete: Callable[[str], set[str]], line: str, words: set[str]) -> None:
    assert complete(line) == words


@each_program
def test_completion_of_other_shells(run: Callable[..., Result], program: str) -> None:
    for shell in SHELLS:
        script = run(program, "--print-completion", shell)
        assert (script.code, script.err) == (0, "")
        assert program in script.out.decode()
        if found := shutil.which(shell):
            subprocess.run([found, "-n"], input=script.out, check=True)


@pytest.mark.parametrize(
    ("name", "before", "after"), [("extract-align", None, "passive"), ("-m", "active", "active"), ("host", None, None)]
)
def test_threads_that_wait_sleep_in_our_programs_alone(name: str, before: str | None, after: str | None) -> None:
    script = f"import os, sys; sys.argv[0] = {name!r}; import align.cli; print(os.environ.get('OMP_WAIT_POLICY'))"
    environment = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"}
    environment |= {"PYTHONPATH": str(ROOT)} | ({"OMP_WAIT_POLICY": before} if before else {})
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert result.stdout == f"{after}\n"
