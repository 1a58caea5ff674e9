"""What the service does with pairs: a fixed layer and head align them, so that links depend only on the pair."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from align.core.aligner import Aligner
from align.core.formats import format_pharaoh
from align.core.stream import OnBatch, OnChoice
from align.core.symmetrize import SOFT
from align.core.text import make_pair
from align.core.types import FLOOR, Alignment, Pair, Search
from align.io.session import Session
from align.models.translate import batch_translator
from align.service.messages import SentencePair
from align.transfer.inline import Inline
from align.transfer.markup import Placement
from align.transfer.pages import Page
from align.transfer.standins import Draft

MAX_PIECES = 200
"""Maximum number of pieces in a sentence to translate, and so of steps of its search: 350 by default."""


class Work(NamedTuple):
    """Sessions of the service, and its description.

    `links` aligns pairs; `tags` does so for placing tags, with links of low scores too; `load_translators` returns two
    sessions that translate sentences and align them so. `signature` is what links depend on.
    """

    links: Session
    tags: Session
    load_translators: Callable[[], tuple[Session, Session]]
    models: Sequence[str]
    signature: str
    languages: tuple[str, str] = ("en", "en")


def work_of(
    aligner: Aligner,
    signature: str,
    search: Search | None = None,
    load_translator: Callable[[], Aligner] | None = None,
) -> Work:
    """Return the work of an aligner.

    Args:
        aligner: an aligner whose `fixed` has been called, and that leaves too long pairs blank.
        search: how to translate.
        load_translator: loads an aligner whose model translates; None where that of `aligner` does.
    """

    def load_translators() -> tuple[Session, Session]:
        translator = load_translator() if load_translator else aligner
        limits = search or Search(), MAX_PIECES
        links, tags = (Session(each, batch_translator(each, *limits)) for each in (translator, for_tags(translator)))
        return links, tags

    models = [direction.recorder.name for direction in aligner.directions]
    languages = aligner.forward.recorder.languages
    return Work(session_of(aligner), session_of(for_tags(aligner)), load_translators, models, signature, languages)


def for_tags(aligner: Aligner) -> Aligner:
    """Return an aligner of the same models, read at the same places, whose soft scores place tags."""
    directions = (
        replace(one, settings=replace(one.settings, threshold=FLOOR), scorer=None) for one in aligner.directions
    )
    return aligner.with_directions(directions, method=SOFT, threshold=FLOOR)


def session_of(aligner: Aligner) -> Session:
    """Return a session that aligns pairs without the checks of a whole text, which a batch is not."""

    def align(pairs: Iterator[Pair], on_choice: OnChoice, on_batch: OnBatch | None) -> Generator[Alignment, None, None]:
        return aligner.checked(aligner.stream(pairs, on_choice, on_batch, aligner.choices))

    return Session(aligner, align)


MAX_TAGS = 100
"""Maximum number of tags per sentence: placing them takes time that grows with tags times words, up to 1/3 s."""


class Item(NamedTuple):
    """The sentences of a pair of a request that a model gets, and a function that writes the fields of its answer.

    The function gets the alignments of these sentences, None where they failed; `error` is why its tags are invalid.
    """

    pairs: Sequence[Pair]
    write: Callable[[Sequence[Alignment] | None], dict[str, Any]]
    error: str = ""


def read_links(pair: SentencePair, number: int, format: str, scores: bool) -> Item:
    """Read a pair that is answered with its links."""

    def write(alignments: Sequence[Alignment] | None) -> dict[str, Any]:
        (alignment,) = alignments or (Alignment(words, {}),)
        links = [*alignment]
        fields: dict[str, Any] = {"links": format_pharaoh(alignment) if format == "pharaoh" else links}
        if scores:
            fields["scores"] = [round(alignment.scores[link], 4) for link in links]
            if alignment.agreement:
                fields["agreement"] = [round(value, 4) for value in alignment.agreement]
        return fields

    words = make_pair(pair.source, pair.target, number)
    return Item([words], write)


def read_sentence(pair: SentencePair, number: int) -> Item:
    """Read a sentence that is answered with its translation and links."""

    def write(alignments: Sequence[Alignment] | None) -> dict[str, Any]:
        if alignments is None:
            return {"target": None, "links": ""}
        (alignment,) = alignments
        return {"target": " ".join(alignment.pair.target), "links": format_pharaoh(alignment)}

    return Item([make_pair(pair.source, "", number)], write)


def read_tagged(pair: SentencePair, number: int, tags: str, split: bool) -> Item:
    """Read a pair that is answered with its target and tags; invalid tags are an error of this pair only."""
    try:
        inline = Inline.of_line(pair.source, pair.target, tags)
        _check_tags(len(inline.missing))
    except ValueError as error:
        return Item((), lambda alignments: _tagged(), str(error))

    def write(alignments: Sequence[Alignment] | None) -> dict[str, Any]:
        if alignments is None:
            return _tagged()
        placed = inline.place(alignments[0].scores, split=split)
        return _tagged(placed.text, placed.report)

    return Item([Pair(inline.source_words, inline.target_words, number)], write)


def read_page(pair: SentencePair, number: int, tags: str, split: bool, languages: tuple[str, str]) -> Item:
    """Read a text that is answered with its translation and tags; invalid tags are an error of this text only."""
    try:
        page = Page(pair.source, tags, line=number)
        _check_tags(sum(token.kind != "text" for segment in page.segments for token in segment.tokens))
    except ValueError as error:
        return Item((), lambda alignments: _tagged(), str(error))
    draft = Draft(page, languages)

    def write(alignments: Sequence[Alignment] | None) -> dict[str, Any]:
        if alignments is None:
            return _tagged()
        placed = draft.place(alignments, split=split)
        return _tagged(placed.text, [placement for report in placed.report for placement in report])

    return Item(draft.pairs, write)


def _check_tags(count: int) -> None:
    if count > MAX_TAGS:
        raise ValueError(f"{count:,} tags, and a sentence may have {MAX_TAGS}")


def _tagged(target: str | None = None, report: Sequence[Placement] = ()) -> dict[str, Any]:
    return {"target": target, "tags": [placement.to_dict() for placement in report]}
