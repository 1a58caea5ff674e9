"""`extract-align --reverse-model` from the outside: soft links, two runs and `combine`, what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

import align
from align import Pair, two_way
from align.cli import extract
from align.cli.combine import main as combine_main
from tests import corpora, toy
from tests.cli.conftest import Result, failed
from tests.golden_files import assert_same_but_for_rounding

pytestmark = pytest.mark.usefixtures("one_thread")

FORWARD, REVERSE = "toys/de-en/checkpoint.pt", "toys/en-de"
BOTH = ("-m", FORWARD, "--reverse-model", REVERSE)


@pytest.fixture
def run(run_main: Callable[..., Result], write: Callable[..., None], tmp_path: Path) -> Callable[..., Result]:
    """The command, in a folder with two toy models and a text of 130 lines, some of them blank."""
    toy.save_model(tmp_path / "toys" / "de-en")
    toy.save_reverse_model(tmp_path / "toys" / "en-de", {"max_source_positions": 20, "max_target_positions": 20})
    pairs = corpora.unrelated(130, seed=3)  # no second best word is nearer than 0.003 %: any processor tells them apart
    pairs[3] = pairs[70] = Pair((), (), 4)
    pairs[4] = Pair(("das",), (), 5)
    write(text=corpora.as_bitext(pairs), turned=corpora.as_bitext(corpora.turned(pairs)))
    return partial(run_main, extract.main)


@pytest.fixture
def combine(run_main: Callable[..., Result]) -> Callable[..., Result]:
    """The other command, which needs no model."""
    return partial(run_main, combine_main, "-q")


# What comes out


@pytest.mark.parametrize("options", [(), ("--buffer", 30, "--score", "weight", "--null", "mask")])
def test_the_bytes_of_two_runs_and_combine(
    run: Callable[..., Result], combine: Callable[..., Result], options: tuple[str, ...]
) -> None:
    assert run("-q", "-m", FORWARD, "text", *options, "-o", "forward").code == 0
    assert run("-q", "-m", REVERSE, "turned", *options, "-o", "reverse").code == 0
    for method in ("grow-diag-final-and", "intersection", "grow-diag"):
        named = () if method == "grow-diag-final-and" else ("--symmetrize", method)  # the default of combine
        combined = combine("forward", "reverse", "--reverse-swapped", *named).out
        result = run("-q", *BOTH, "text", *options, "--symmetrize", method)
        assert (result.code, result.out) == (0, combined)
        assert result.out.count(b"\n") == 130


@pytest.mark.filterwarnings("ignore::align.core.types.TextWarning")
def test_soft_is_the_default_and_what_the_library_does(run: Callable[..., Result], tmp_path: Path) -> None:
    both = two_way(align.load(FORWARD, device="cpu"), align.load(REVERSE, device="cpu"))
    pairs = [line.split("|||") for line in (tmp_path / "text").read_text(encoding="utf-8").splitlines()]
    found = list(both((source, target) for source, target in pairs))
    assert sum(len(alignment.links) for alignment in found) > 30
    for options in (
        (),
        ("--symmetrize", "soft"),
        ("--threshold", "0.5"),
        ("--symmetrize", "soft", "--threshold", ".5"),
    ):
        result = run("-q", *BOTH, "text", *options)
        assert (result.code, result.out.decode()) == (0, "".join(f"{alignment}\n" for alignment in found))
    scored = [" ".join(f"{i}-{j}:{alignment.scores[i, j]:.2f}" for i, j in alignment) for alignment in found]
    expected = "".join(f"{line}\n" for line in scored).encode()
    assert_same_but_for_rounding(run("-q", *BOTH, "text", "--scores").out, expected, "0.01")
    records = [json.loads(line) for line in run("-q", *BOTH, "text", "-f", "jsonl").out.splitlines()]
    for record, alignment in zip(records, found, strict=True):
        assert [tuple(link) for link in record["links"]] == list(alignment)
        assert record["scores"] == pytest.approx([alignment.scores[link] for link in alignment], abs=1e-4)
        assert record["null"] == alignment.null
        assert all(0.5 < score <= 1 for score in record["scores"])


def test_a_higher_threshold_leaves_fewer_links(run: Callable[..., Result]) -> None:
    def links(*options: object) -> list[set[str]]:
        return [set(line.split()) for line in run("-q", "--scores", *options, "text").out.decode().splitlines()]

    for models in (BOTH, ("-m", FORWARD)):
        outputs = [links(*models, "--threshold", threshold) for threshold in (0, 0.3, 0.6, 1)]
        for more, fewer in pairwise(outputs):
            assert all(a <= b for a, b in zip(fewer, more, strict=True))
            assert sum(map(len, fewer)) < sum(map(len, more))
        assert not any(outputs[-1])


@pytest.mark.filterwarnings("ignore::align.core.types.TextWarning")
def test_a_threshold_in_one_direction(run: Callable[..., Result], tmp_path: Path) -> None:
    aligner = align.load(FORWARD, device="cpu", threshold=0.3)
    lines = (tmp_path / "text").read_text(encoding="utf-8").splitlines()
    pairs = [(source, target) for source, target in (line.split("|||") for line in lines)]
    expected = "".join(f"{alignment}\n" for alignment in aligner(pairs))
    assert run("-q", "-m", FORWARD, "--threshold", "0.3", "text").out.decode() == expected
    assert run("-q", *BOTH, "--symmetrize", "forward", "--threshold", "0.3", "text").out.decode() == expected


def test_heuristics_with_a_threshold_are_two_runs_and_combine(
    run: Callable[..., Result], combine: Callable[..., Result]
) -> None:
    assert run("-q", "-m", FORWARD, "text", "--threshold", "0.3", "-o", "forward").code == 0
    assert run("-q", "-m", REVERSE, "turned", "--threshold", "0.3", "-o", "reverse").code == 0
    combined = combine("forward", "reverse", "--reverse-swapped", "--symmetrize", "union").out
    assert run("-q", *BOTH, "text", "--symmetrize", "union", "--threshold", "0.3").out == combined


def test_one_direction_of_two(run: Callable[..., Result]) -> None:
    alone = run("-q", "-m", FORWARD, "--scores", "text").out
    assert_same_but_for_rounding(run("-q", *BOTH, "--scores", "text", "--symmetrize", "forward").out, alone, "0.01")
    turned = [
        sorted(tuple(map(int, link.split("-")))[::-1] for link in line.split())
        for line in run("-q", "-m", REVERSE, "turned").out.decode().splitlines()
    ]
    found = run("-q", *BOTH, "text", "--symmetrize", "reverse").out.decode()
    assert [[tuple(map(int, link.split("-"))) for link in line.split()] for line in found.splitlines()] == turned


def test_scores_are_the_mean_of_both(run: Callable[..., Result]) -> None:
    outputs = [
        run("-q", *arguments, "-f", "jsonl").out.decode().splitlines()
        for arguments in (
            ("-m", FORWARD, "text"),
            ("-m", REVERSE, "turned"),
            (*BOTH, "--symmetrize", "union", "text"),
        )
    ]
    forward, reverse, both = (
        [dict(zip(map(tuple, record["links"]), record["scores"], strict=True)) for record in map(json.loads, lines)]
        for lines in outputs
    )
    for a, b, merged in zip(forward, reverse, both, strict=True):
        expected = {link: (a.get(link, 0) + b.get(link[::-1], 0)) / 2 for link in {*a, *(link[::-1] for link in b)}}
        assert merged == pytest.approx(expected, abs=2e-4)


def test_stderr_says_both_models_both_cells_and_signs_all(run: Callable[..., Result]) -> None:
    err = run(*BOTH, "text", "--threads", 1, "--device", "cpu").err
    lines = [line for line in err.splitlines() if "warning" not in line]
    assert "fairseq:de-en@" in lines[0]
    assert "fairseq:en-de@" in lines[1]
    parts = []
    for line, name in zip(lines[2:4], ("forward", "reverse"), strict=True):
        place = r"layer (\d), (?:head )?(\w+)(?: heads)?"
        reason = r"\(by lexical consistency over 127 pairs, -?\d\.\d\d\)"
        found = re.fullmatch(rf"extract-align: {name}: {place}; output position: {place} {reason}", line)
        assert found
        prefix = "" if name == "forward" else "reverse-"
        keys = ("layer", "head", "output-layer", "output-head")
        shown = [f"{prefix}{key}:auto({value})" for key, value in zip(keys, found.groups(), strict=True)]
        parts.append("|".join([*shown[:2], *(["both"] if not prefix else []), *shown[2:]]))
    assert lines[4].startswith("extract-align: 130 lines, 3 blank, 0 bad, ")
    names = [line.split()[1] for line in lines[:2]]
    assert lines[5] == (
        f"align|{names[0]}|norm|{parts[0]}|sum/mean|null:eos|reverse:{names[1]}|{parts[1]}|soft:0.5|v:{align.__version__}"
    )


@pytest.mark.parametrize(
    ("arguments", "before", "end"),
    [
        (BOTH, "|null:eos|reverse:", "|soft:0.5|"),
        ((*BOTH, "--threshold", "0.25"), "|null:eos|reverse:", "|soft:0.25|"),
        ((*BOTH, "--threshold", "0"), "|null:eos|reverse:", "|soft:0|"),
        ((*BOTH, "--symmetrize", "soft", "--threshold", "0.40"), "|null:eos|reverse:", "|soft:0.4|"),
        ((*BOTH, "--symmetrize", "grow-diag"), "|null:eos|threshold:0.5|reverse:", "|grow-diag|"),
        ((*BOTH, "--symmetrize", "grow-diag", "--threshold", "none"), "|null:eos|reverse:", "|grow-diag|"),
        ((*BOTH, "--symmetrize", "union", "--threshold", "1"), "|null:eos|threshold:1|reverse:", "|union|"),
        (("-m", FORWARD, "--threshold", "0.4"), "|null:eos|", "|threshold:0.4|"),
        (("-m", FORWARD, "--threshold", "0"), "|null:eos|", "|threshold:0|"),
        (("-m", FORWARD), "|both|", "|null:eos|threshold:0.5|"),
        (("-m", FORWARD, "--threshold", "none"), "|both|", "|null:eos|"),
        (("-m", FORWARD, "--position", "input", "--threshold", "none"), "|layer:auto|head:auto|input|", "|null:eos|"),
        (("-m", FORWARD, "--layer", "1,2", "--head", "3,all"), "|output-layer:2|output-head:all|", "|threshold:0.5|"),
    ],
)
def test_signatures_have_the_threshold_once(
    run: Callable[..., Result], arguments: tuple[str, ...], before: str, end: str
) -> None:
    line = run("-q", "--signature", *arguments).out.decode()
    assert before in line
    assert line.endswith(f"{end}v:{align.__version__}\n")
    assert line.count("threshold:") + line.count("soft:") <= 1


def test_signature_alone_with_layers_and_heads_of_either(run: Callable[..., Result]) -> None:
    arguments = ("--layer", 1, "--head", "all", "--reverse-layer", 2, "--reverse-head", 4, "--symmetrize", "union")
    out = run("-q", *BOTH, "--signature", *arguments).out.decode()
    beside = "output-layer:auto|output-head:auto"
    assert f"|layer:1|head:all|both|{beside}|sum/mean|null:eos|threshold:0.5|reverse:fairseq:en-de@" in out
    reverse = "|reverse-layer:2|reverse-head:4|reverse-output-layer:auto|reverse-output-head:auto|union"
    assert out.endswith(f"{reverse}|v:{align.__version__}\n")


def test_flags_speak_of_the_forward_model_only(run: Callable[..., Result], tmp_path: Path) -> None:
    named = ("--source-lang", "de", "--target-lang", "en")
    result = run("-m", FORWARD, *named, "--reverse-model", REVERSE, "text")
    assert result.code == 0
    texts = [line.partition("text: ")[2] for line in result.err.splitlines() if "; text: " in line]
    assert texts[0].startswith("de (as it is: no tokenizer, no subwords), en (as it is")
    assert texts[1].startswith("en (as it is: no tokenizer, no subwords), de (as it is: no tok")


def test_results_are_out_before_the_input_ends(run: Callable[..., Result]) -> None:
    result = run("-q", *BOTH, stdin="das haus ||| the house\nbroken\n")
    failed(result, "stdin, line 2: no ||| and no TAB")
    assert result.out.count(b"\n") == 1


# What does not fit


def test_too_long_for_the_reverse_model_alone(run: Callable[..., Result]) -> None:
    lines = "das haus ||| the house\n" + "das " * 25 + "||| the\n" + "haus ||| house\n"
    failed(
        run("-q", *BOTH, stdin=lines),
        "stdin, line 2: source has 26 pieces with </s>, the reverse model (fairseq:en-de@",
        "takes 20",
        "--bad-lines blank",
    )
    for method in ("soft", "union"):
        result = run(*BOTH, "--bad-lines", "blank", "--symmetrize", method, stdin=lines)
        assert (result.code, result.out.split(b"\n")[1]) == (0, b"")
        assert "3 lines, 0 blank, 1 bad (1 too long), " in result.err
    jsonl = run("-q", *BOTH, "--bad-lines", "blank", "-f", "jsonl", stdin=lines).out
    assert [json.loads(line).get("skipped") for line in jsonl.splitlines()] == [None, "too long", None]


def test_a_reverse_model_without_its_dictionary(run: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "toys" / "en-de" / "dict.de.txt").unlink()
    failed(run(*BOTH, "text"), "toys/en-de/dict.de.txt: no such dictionary; there are those of: en: ")


def test_a_reverse_model_of_the_same_direction_is_warned_about(run: Callable[..., Result]) -> None:
    result = run("-q", "-m", FORWARD, "--reverse-model", FORWARD, "text")
    assert result.code == 0
    assert "extract-align: warning: fairseq:de-en@" in result.err
    assert "does it translate en to de?" in result.err


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("--reverse-model", "no/such"), ("no/such: no such file or folder",)),
        (("--reverse-model", "toys/en-de", "--reverse-layer", 9), ("layer 9 is out of range: fairseq:en-de@", "has 2")),
        (("--reverse-model", "toys/en-de", "--reverse-head", 9), ("head 9 is out of range: fairseq:en-de@", "has 4")),
    ],
)
def test_errors_name_what_is_wrong(
    run: Callable[..., Result], arguments: tuple[object, ...], parts: tuple[str, ...]
) -> None:
    failed(run("-q", "-m", FORWARD, *arguments, "text"), *parts)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--reverse-layer", "2"), "--reverse-layer requires --reverse-model"),
        (("--reverse-head", "all"), "--reverse-head requires --reverse-model"),
        (("--reverse-layer", "0", "--reverse-model", "x"), "'0' is neither a number from 1 nor auto"),
        (("--symmetrize", "union"), "--symmetrize requires --reverse-model"),
        (("--symmetrize", "forward"), "--symmetrize requires --reverse-model"),
        (("--symmetrize", "grow", "--reverse-model", "x"), "invalid choice: 'grow'"),
        (("--symmetrize", "soft"), "--symmetrize requires --reverse-model"),
        (("--threshold", "-0.1"), "'-0.1' is not a number from 0 to 1"),
        (("--threshold", "1.5"), "'1.5' is not a number from 0 to 1"),
        (("--threshold", "nan", "--reverse-model", "x"), "'nan' is not a number from 0 to 1"),
        (("--threshold", "x"), "'x' is not a number from 0 to 1"),
        (("--reverse-swapped", "--reverse-model", "x"), "unrecognized arguments: --reverse-swapped"),
        (("--train-source", "a", "--reverse-model", "x"), "unrecognized arguments: --train-source"),
    ],
)
def test_wrong_usage_is_exit_code_2(run_main: Callable[..., Result], arguments: tuple[str, ...], message: str) -> None:
    result = run_main(extract.main, *arguments)
    assert (result.code, result.out) == (2, b"")
    assert message in result.err
