"""How all programs answer on the command line: wrong usage, unknown and abbreviated options."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import pytest

from tests.cli.conftest import Result

PROGRAMS = {
    "baseline-align": "align.cli.baseline",
    "combine-align": "align.cli.combine",
    "eval-align": "align.cli.evaluate",
    "extract-align": "align.cli.extract",
    "sweep-align": "align.cli.sweep",
}


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("combine-align a b c", "unrecognized arguments: c"),
        ("combine-align a b c\nd\33[1m", r"unrecognized arguments: c\nd\x1b[1m"),
        ("extract-align a --symetrize=soft", "unrecognized arguments: --symetrize=soft; did you mean --symmetrize?"),
        ("extract-align --sym soft a b", "unrecognized arguments: --sym a b; did you mean --symmetrize?"),
        ("extract-align --max 2", "unrecognized arguments: --max; did you mean --max-len-a or --max-len-b?"),
        ("extract-align --frobnicate", "unrecognized arguments: --frobnicate"),
        ("baseline-align giza a --tread 2", "unrecognized arguments: --tread 2; did you mean --threads?"),
        ("eval-align -g a b --fmt tsv", "unrecognized arguments: --fmt tsv; did you mean --format?"),
        ("eval-align a", "the following arguments are required: -g/--gold"),
        ("sweep-align --output", "argument -o/--output: expected one argument"),
        ("sweep-align --null x", "argument --null: invalid choice: 'x' (choose from 'eos', 'mask', 'none')"),
    ],
)
def test_wrong_usage_is_its_reason_and_a_hint(run_main: Callable[..., Result], command: str, reason: str) -> None:
    program, *arguments = command.split(" ")
    result = run_main(import_module(PROGRAMS[program]).main, *arguments)
    error = f"{program}: error: {reason}\n{program} --help says what there is\n"
    assert (result.code, result.out) == (2, b"")
    assert result.err.replace("choose from eos, mask, none", "choose from 'eos', 'mask', 'none'") == error
