"""Text that may come from anywhere, on its way to a terminal."""

from __future__ import annotations


def printable(word: str) -> str:
    """A word that cannot move the cursor or change colours: what is not printable is shown as its escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in word)
