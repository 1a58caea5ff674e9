"""Put the tags of a source sentence into its translation, for one pair of a request."""

from __future__ import annotations

from typing import Any, NamedTuple

from align.core.text import split_words
from align.core.types import Alignment, Pair
from align.transfer.markup import place_markup
from align.transfer.tree import Markup, read_markup, readable

MOST_TAGS = 100
"""Maximum number of tags per sentence: placing them takes time that grows with tags times words, up to 1/3 s."""


class Tagged(NamedTuple):
    """A pair and the tags of its source.

    Attributes:
        pair: its words, as a model reads them; empty if the tags are invalid.
        markup: the source; None if its tags are invalid.
        target: as in the request.
        error: why the tags are invalid.
    """

    pair: Pair
    markup: Markup | None
    target: str
    error: str = ""


def read_tagged(source: str, target: str, tags: str, id: int) -> Tagged:
    """Read a pair; invalid tags are an error of this pair only."""
    try:
        markup = read_markup(source, tags, target, as_words=True)
    except ValueError as error:
        return Tagged(Pair((), (), id), None, target, str(error))
    if (count := sum(token.kind != "text" for token in markup.tokens)) > MOST_TAGS:
        return Tagged(Pair((), (), id), None, target, f"{count:,} tags, and a sentence may have {MOST_TAGS}")
    pair = Pair(markup.readable(), readable(split_words(target), markup.escaped), id)
    return Tagged(pair, markup, target)


def write_tagged(tagged: Tagged, alignment: Alignment | None, status: str, split: bool) -> dict[str, Any]:
    """Return the reply for a pair: see `align.service.messages.TransferredPair`."""
    if tagged.markup is None:
        return {"status": status, "target": None, "tags": [], "error": tagged.error}
    if alignment is None or alignment.skipped:
        return {"status": status, "target": None, "tags": []}
    placed = place_markup(tagged.markup, tagged.target, alignment.scores, split=split)
    return {"status": status, "target": placed.text, "tags": [placement.to_dict() for placement in placed.report]}
