"""Make a model's text processing from its vocabulary, and find the pieces of its languages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from align.core.errors import ModelError, shorten
from align.models.assemble import preprocessor
from align.models.detokenize import Join
from align.models.huggingface.vocabulary import Vocabulary
from align.models.languages import same_language
from align.models.model_toml import ModelOptions
from align.models.preprocess import Preprocessor, TextRules, moses_normalizer

WELL_KNOWN = ("en", "de", "fr", "es", "zh")
"""Languages whose codes serve as examples."""

MAX_LISTED = 10
"""Languages of a model that a message lists."""


@dataclass(frozen=True)
class Text:
    """The text processing of a model.

    Attributes:
        sides: preprocessing of the source and of the target.
        ids: maps any piece of a side, such as a language's, to its id.
        unk: id of unknown pieces.
        codes: the model's language codes, each with its piece.
        rows: the largest id of each side plus one.
        special: pieces that belong to no word, by id, for each side.
        known: pieces of the target's words, with their ids.
        join: joins pieces into tokens.
    """

    sides: tuple[Preprocessor, Preprocessor]
    ids: tuple[Callable[[str], int | None], Callable[[str], int | None]]
    unk: int
    codes: Mapping[str, str]
    rows: tuple[int, int]
    special: tuple[Mapping[int, str], Mapping[int, str]]
    known: Mapping[str, int]
    join: Join


def prepare_text(vocabulary: Vocabulary, languages: tuple[str, str], options: ModelOptions) -> Text:
    """Return the text processing of both sides."""
    sides, special, known = [], [], {}
    for side, language in zip(vocabulary.sides, languages, strict=True):
        case, tokenizer = options.case or vocabulary.case, options.tokenizer or vocabulary.tokenizer
        rules = TextRules(language, case, tokenizer, vocabulary.subwords, side.file)
        normalize = moses_normalizer(language) if vocabulary.normalized and not options.tokenizer else None
        known = {piece: n for piece, n in side.ids.items() if piece not in vocabulary.special}
        sides.append(preprocessor(rules, known, side.ids["<unk>"], side.segment, normalize))
        of_words = {side.ids["<unk>"], *known.values()}
        pieces = [(piece, side.ids[piece]) for piece in vocabulary.special if piece in side.ids]
        special.append({n: piece for piece, n in pieces if n not in of_words})
    source, target = vocabulary.sides
    return Text(
        (sides[0], sides[1]),
        (source.ids.get, target.ids.get),
        source.ids["<unk>"],
        vocabulary.codes,
        (max(source.ids.values()) + 1, max(target.ids.values()) + 1),
        (special[0], special[1]),
        known,
        vocabulary.join,
    )


def language_piece(text: Text, code: str | None, argument: str, file: str, named_by: str = "") -> str:
    """Return the piece that stands for a language."""
    if piece := text.codes.get(code or "") or text.codes.get((code or "").strip("_")):
        return piece
    if code is None:
        near = [own for known in WELL_KNOWN for own in text.codes if same_language(known, own)]
    else:
        near = [own for own in text.codes if same_language(code, own)]
    near = near or get_close_matches(code or "", text.codes, n=5, cutoff=0.6) or list(text.codes)
    if len(text.codes) <= MAX_LISTED:
        choice = f"one of {', '.join(map(shorten, text.codes))}"
    else:
        choice = f"one of its {len(text.codes)} languages, such as {', '.join(map(shorten, near[:5]))}"
    message = f"the model has no language {shorten(code)}" if code else f"no {argument.split('_')[0]} language is given"
    if named_by:
        message += f", which {named_by} names"
    raise ModelError(message, file=file, hint=f"give ‹{argument}›, {choice}")
