"""Errors as data: what, where and the remedy, told to users of the library and to those of a program."""

from __future__ import annotations

from copy import copy
from typing import Any

import pytest

from align.cli.common import with_options
from align.core.errors import LONGEST_MESSAGE, DataError, LineError, LinksError, ModelError, PairError, show_value
from align.core.types import TextWarning
from align.evaluation.gold import LinksWarning


def test_the_parts_of_a_message() -> None:
    hint = 'shorten it, or say ‹too_long="blank"›'
    assert str(PairError("too long")) == "too long"
    assert str(PairError("too long", line=3)) == "line 3: too long"
    error = PairError("too long", line=3, hint=hint)
    assert str(error) == 'line 3: too long: shorten it, or say too_long="blank"'
    assert error.told(with_options) == "line 3: too long: shorten it, or say --bad-lines blank"
    assert str(error.in_file("text").in_file("a.de")).startswith("a.de, line 3: too long: ")
    assert (type(error.in_file("text")), error.file) == (PairError, "")
    assert str(copy(error)) == str(error)


@pytest.mark.parametrize("kind", [DataError, LineError, PairError, ModelError, LinksError])
def test_control_characters_are_escaped(kind: Any) -> None:
    acting, escaped = "a\x1b[31m\u202e\n\x85é", r"a\x1b[31m\u202e\n\x85é"
    message = kind(acting, file=acting, hint=acting)
    assert str(message) == message.told(with_options) == f"{escaped}: {escaped}: {escaped}"
    assert str(LinksWarning(message)) == str(message)
    assert str(TextWarning(acting)) == escaped


@pytest.mark.parametrize(
    ("value", "shown"),
    [("de", "'de'"), ("x" * 50, f"'{'x' * 39}…'"), (7, "7"), (1 << 64, "a very large int"), ([], "of type list")],
)
def test_values_of_untrusted_files_are_shown_short(value: object, shown: str) -> None:
    assert show_value(value) == shown


def test_every_error_of_data_has_an_end() -> None:
    assert len(str(DataError("x" * 1_000_000, file="f", line=1))) < LONGEST_MESSAGE + 20
