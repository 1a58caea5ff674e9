"""Align pairs of requests with a fixed layer and head, so that links depend only on the pair."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from align.core.aligner import Aligner
from align.core.stream import aligning, error_free
from align.core.symmetrize import SOFT
from align.core.text import split_words
from align.core.types import FLOOR, Alignment, Pair, Search
from align.models.translate import batch_translator
from align.service.rounds import Align
from align.transfer.markup import place_markup
from align.transfer.pages import Page
from align.transfer.standins import Draft
from align.transfer.tags import Markup, read_markup, readable

_log = logging.getLogger("align.service")


@dataclass(frozen=True)
class Work:
    """Functions of the service, and its description.

    Attributes:
        align: aligns pairs.
        align_for_tags: aligns pairs for placing tags, with links of low scores too.
        load_translators: returns two functions that translate sentences and align them, as `align` and
            `align_for_tags` do; they load the model's framework.
        models: names of the models.
        signature: what links depend on.
        language: code of the source language.
    """

    align: Align
    align_for_tags: Align
    load_translators: Callable[[], tuple[Align, Align]]
    models: Sequence[str]
    signature: str
    language: str = "en"


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

    def load_translators() -> tuple[Align, Align]:
        translator = load_translator() if load_translator else aligner
        translate, translate_for_tags = (
            batch_translator(each, search or Search()) for each in (translator, for_tags(translator))
        )
        return translate, translate_for_tags

    models = [direction.recorder.name for direction in aligner.directions]
    language = aligner.forward.recorder.languages[0]
    return Work(_align(aligner), _align(for_tags(aligner)), load_translators, models, signature, language)


def for_tags(aligner: Aligner) -> Aligner:
    """Return an aligner of the same models, read at the same places, for the placement of tags."""
    threshold = None if aligner.reverse else FLOOR  # for one direction; `aligner.threshold` is for both
    forward, *reverse = (
        replace(direction, settings=replace(direction.settings, threshold=threshold))
        for direction in aligner.directions
    )
    return replace(aligner, forward=forward, reverse=reverse[0] if reverse else None, method=SOFT, threshold=FLOOR)


def _align(aligner: Aligner) -> Align:
    """Return a function that aligns pairs without the checks of a whole text, which a batch is not."""
    task, choices = aligning(aligner.steps), aligner.choices

    def align(pairs: Sequence[Pair]) -> list[Alignment]:
        results = zip(pairs, error_free(task(pairs, choices, None)), strict=True)
        alignments = [Alignment(pair, *result) for pair, result in results]
        if aligner.check and not aligner.check.done and (warning := aligner.check.add(pairs)):
            _log.warning("%s", warning)
        return alignments

    return align


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


class Sentence(NamedTuple):
    """A text with tags to translate, in one or several sentences.

    Attributes:
        draft: the text; None if its tags are invalid.
        error: why the tags are invalid.
    """

    draft: Draft | None
    error: str = ""

    @property
    def pairs(self) -> Sequence[Pair]:
        """Its sentences."""
        return self.draft.pairs if self.draft else ()


def read_sentence(source: str, tags: str, language: str, id: int) -> Sentence:
    """Read a text to translate; invalid tags are an error of this text only."""
    try:
        page = Page(source, tags, line=id)
    except ValueError as error:
        return Sentence(None, str(error))
    if (count := sum(token.kind != "text" for segment in page.segments for token in segment.tokens)) > MOST_TAGS:
        return Sentence(None, f"{count:,} tags, and a sentence may have {MOST_TAGS}")
    return Sentence(Draft(page, language))


def write_sentence(sentence: Sentence, alignments: Sequence[Alignment] | None, split: bool) -> dict[str, Any]:
    """Return target and tags of a translated text; without alignments it is not translated."""
    if sentence.draft is None or alignments is None:
        return {"target": None, "tags": []}
    translation = sentence.draft.place(alignments, split=split)
    tags = [placement.to_dict() for placements in translation.report for placement in placements]
    return {"target": translation.text, "tags": tags}


def write_tagged(tagged: Tagged, alignment: Alignment | None, split: bool) -> dict[str, Any]:
    """Return target and tags of a pair: see `align.service.messages.TransferredPair`."""
    if tagged.markup is None or alignment is None:
        return {"target": None, "tags": []}
    placed = place_markup(tagged.markup, tagged.target, alignment.scores, split=split)
    return {"target": placed.text, "tags": [placement.to_dict() for placement in placed.report]}
