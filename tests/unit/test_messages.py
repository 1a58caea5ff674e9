"""The wording of all messages is in one file."""

from tests.messages import GOLDEN, current


def test_messages_are_those_of_the_golden_file() -> None:
    """If a text was changed: `python -m tests.messages`, and read the difference."""
    assert GOLDEN.name == "messages.txt"
    assert GOLDEN.read_text(encoding="utf-8") == current()
