"""Text that may come from anywhere, on its way to a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """Text that cannot move the cursor or change colours: characters that are not printable become their escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
