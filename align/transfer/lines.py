"""Lines with tags or labels and their translations: the words that a model aligns, and the target with the tags."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import filterfalse
from typing import NamedTuple

from align.core.types import Pair
from align.transfer.inline import Inline
from align.transfer.markup import Placement
from align.transfer.repair import Repaired, compare_messages, missing_tags, repair_target
from align.transfer.tags import Syntax, Token

_NO_CODE = re.compile(r"<[!?]|</?(?:\w+:)?(?:mrk|sm)\b|<(?:\w+:)?em\b[^>]*\sstartRef")  # comments and annotations

Links = Mapping[tuple[int, int], float]


class Placed(NamedTuple):
    """A target with the tags or labels of its source."""

    text: str
    report: Sequence[Placement]
    source: str  # for a list of doubtful lines
    lists: Mapping[str, Sequence[str]] = {}  # tags of the target unlike the source's, by name in the report
    tokens: Sequence[Token] = ()  # those of the source; empty for labels
    unsure: bool = False  # whether a tag was removed of several equal ones, of which another may be too many


@dataclass(frozen=True)
class TaggedLine:
    """A line with tags, and its translation."""

    source: Inline
    target: str
    pair: Pair
    split: bool = False
    repaired: Repaired | None = None  # what was removed or rewritten in the target; None without a repair

    @property
    def plain(self) -> str:
        """Return the source without its tags or labels."""
        return self.source.plain

    def divided(self, pair: Pair, scores: Links) -> tuple[TaggedLine, Links]:
        """Return the line in the words of a pair, with their scores."""
        self.source.use_words(pair.source, pair.target)
        return replace(self, pair=pair), scores

    def place(self, scores: Links) -> Placed:
        """Return the target with the tags or labels of the source."""
        text, report = self.source.place(scores, split=self.split)
        tokens = self.source.tokens
        source = "".join(token.text for token in tokens)
        if self.repaired is None:
            return Placed(text, report, source, {"extra": self.source.extra}, tokens)
        lists = {name: getattr(self.repaired, name) for name in ("removed", "rewritten", "unrepaired", "extra")}
        missing = missing_tags(source, text, self.source.syntax) if self.repaired.certain else ()
        lists["unrepaired"] += missing
        if missing or not self.repaired.certain:
            text, report = self.target, ()
        return Placed(text, report, source, lists, tokens, bool(self.repaired.unsure))


def find_faults(source: str, target: str, tags: str | Syntax) -> list[str]:
    """Return what is wrong with the tags and placeholders of a finished translation."""
    try:
        inline = Inline.of_segment(source, target, tags)
    except ValueError as error:
        return [str(error)]
    missing, extra = (Counter(filterfalse(_NO_CODE.match, side)) for side in (inline.missing, inline.extra))
    faults = []
    for wrong, fault in ((missing - extra, "missing"), (extra - missing, "not in the source")):
        opened = {re.split(r"[\s/>]", tag[1:])[0] for tag in wrong}
        faults += [f"{tag} is {fault}" for tag in wrong.elements() if tag[:2] != "</" or tag[2:-1] not in opened]
    faults = faults or [f"{tag} is not closed, or crosses another" for tag in missing & extra if tag[:2] != "</"]
    if not faults and inline.syntax.placeholders:
        try:
            edits, missing_parts = compare_messages(source, target, inline.syntax)
        except ValueError:
            return ["an ICU message is not as in the source"]
        faults = [f"the keyword {keyword} is translated" for _, _, keyword in edits]
        faults += [f"{part} is missing" for part in missing_parts]
    return faults


def read_tagged(
    source: str, target: str, syntax: Syntax, number: int, *, as_words: bool, split: bool, repair: bool
) -> TaggedLine:
    """Read a line with tags and its translation.

    Args:
        as_words: whether a model reads the words of both sides, which have no tags then.
        split: whether a tag may appear more than once.
        repair: whether tags of the target that are not as in the source are removed or rewritten.
    """
    repaired = repair_target(source, target, syntax) if repair else None
    target = repaired.text if repaired else target
    inline = Inline.of_line(source, target, syntax, as_written=not as_words)
    return TaggedLine(inline, target, Pair(inline.source_words, inline.target_words, number), split, repaired)
