"""Replace the unknown words of a translation by the source words that they are linked to."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from align.core.text import normalize
from align.core.types import Alignment, Pair
from align.models.detokenize import UNKNOWN
from align.models.punctuation import is_punctuation

Scores = Callable[[Pair], "Sequence[Sequence[float]] | None"]
"""Returns scores of a pair's words `[J][I+1]`, the last column for `</s>`; None if the model cannot read the pair."""

NO_SOURCE = "\u2047"
"""Stands for an unknown word whose source is unknown too, as in sentencepiece."""

_NOT_IN_A_WORD = re.compile(r"\|{3,}|[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+")
"""Text that would end a side of `source ||| target`, or a line."""


UnknownPart = Callable[[str], str]
"""Returns the part of a source word that the model does not know: `Łódź` of `Berlin–Łódź`."""


def _tokens(text: str) -> list[str]:
    """Cut a text into runs of letters, digits, combining marks and invisible characters, and single other ones."""
    tokens: list[str] = []
    in_word = False
    for character in text:
        if in_word and _is_of_word(character):
            tokens[-1] += character
            continue
        in_word = _is_of_word(character)
        tokens.append(character)
    return tokens


def _is_of_word(character: str) -> bool:
    if character == UNKNOWN:
        return False
    return character.isalnum() or unicodedata.category(character).startswith("M") or not normalize(character)


def unknown_part(word: str, is_known: Callable[[str], bool]) -> str:
    """Return a word from its first unknown token to the last; the whole word if all are known."""
    tokens = _tokens(word)
    unknown = [n for n, token in enumerate(tokens) if not is_known(token)]
    return "".join(tokens[unknown[0] : unknown[-1] + 1]) if unknown else word


def replace_unknown(alignment: Alignment, scores: Scores, part: UnknownPart = str) -> Alignment:
    """Replace each unknown token of the translation by the unknown part of its source word.

    The source word is the one with the best link, or the highest score if no link leads to a word that is more than
    punctuation. Neighbouring unknown words with the same source word become one.

    Args:
        alignment: of a source sentence and its translation, in which UNKNOWN stands for each unknown piece.
        scores: returns scores, for words without a link.
        part: returns the unknown part of a source word.
    """
    words = alignment.pair.target
    unknown = [j for j, word in enumerate(words) if UNKNOWN in word]
    if not unknown:
        return alignment
    sources = _sources(alignment, unknown, scores)
    target: list[str] = []
    numbers: list[int] = []  # number in the result of each word of the translation
    before = None
    for j, word in enumerate(words):
        source = sources.get(j)
        if source is not None and source == before and word.startswith(UNKNOWN):
            target[-1] += _around_unknown(word)[1]
        else:
            target.append(word if j not in sources else _replaced(word, alignment.pair.source, source, part))
        numbers.append(len(target) - 1)
        before = source if word.endswith(UNKNOWN) else None
    links: dict[tuple[int, int], float] = {}
    for (i, j), score in alignment.scores.items():
        link = i, numbers[j]
        links[link] = max(score, links.get(link, 0.0))
    return replace(alignment, pair=alignment.pair.with_target(tuple(target)), scores=links)


def _sources(alignment: Alignment, unknown: Sequence[int], scores: Scores) -> dict[int, int | None]:
    """Return the source word of each unknown word; None if there is none."""
    sources: dict[int, int | None] = {}
    rows: Sequence[Sequence[float]] | None = None
    sentence = alignment.pair.source
    for j in unknown:
        best = _best({i: score for (i, target), score in alignment.scores.items() if target == j}, sentence)
        if best is None or is_punctuation(sentence[best]):
            rows = rows or scores(alignment.pair) or [[]] * len(alignment.pair.target)
            by_score = _best(dict(enumerate(rows[j][:-1])), sentence)
            best = best if by_score is None else by_score
        sources[j] = best
    return sources


def _best(scores: Mapping[int, float], sentence: Sequence[str]) -> int | None:
    """Return the source word with the highest score; punctuation only if no other word has a score."""
    ranked = [(not is_punctuation(sentence[i]), score, -i) for i, score in scores.items() if score > 0]
    return -max(ranked)[2] if ranked else None


def _replaced(word: str, sentence: Sequence[str], source: int | None, part: UnknownPart) -> str:
    """Return the unknown part of the source word, surrounded by the known tokens of the translation's word."""
    before, after = _around_unknown(word)
    core = NO_SOURCE if source is None else _NOT_IN_A_WORD.sub("", part(_parts(sentence[source])[1]))
    return f"{before}{core or NO_SOURCE}{after}"


def _around_unknown(word: str) -> tuple[str, str]:
    """Return the text before the first token with an unknown piece and the text after the last one."""
    tokens = _tokens(word)
    first = tokens.index(UNKNOWN)
    last = len(tokens) - 1 - tokens[::-1].index(UNKNOWN)
    first -= first > 0 and _is_of_word(tokens[first - 1][0])
    last += last + 1 < len(tokens) and _is_of_word(tokens[last + 1][0])
    return "".join(tokens[:first]), "".join(tokens[last + 1 :])


def _parts(word: str) -> tuple[str, str, str]:
    """Split a word into leading punctuation, core and trailing punctuation; punctuation alone is all core."""
    inner = [n for n, character in enumerate(word) if not is_punctuation(character) and normalize(character)]
    begin, end = (inner[0], inner[-1] + 1) if inner else (0, len(word))
    return word[:begin], word[begin:end], word[end:]
