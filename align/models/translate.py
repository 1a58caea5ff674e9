"""Translate sentences and align them with their translations, lazily and in order."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from align.core.errors import PairError, shorten
from align.core.scores import NULL
from align.core.stream import (
    BLANK,
    LONGEST_PIECE,
    OnBatch,
    OnChoice,
    Task,
    attempt,
    chunks,
    encode,
    exceeds,
    in_order,
)
from align.core.text import IdPair, normalize, split_words, words_of
from align.core.types import Alignment, Choice, Pair, Place, Search
from align.models.detokenize import UNKNOWN
from align.models.punctuation import is_punctuation

if TYPE_CHECKING:
    from align.core.aligner import Aligner


NO_SOURCE = "\u2047"  # stands for an unknown word whose source is unknown too, as in sentencepiece

_NOT_IN_A_WORD = re.compile(r"\|{3,}|[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+")
"""Text that would end a side of `source ||| target`, or a line."""


def _is_of_word(character: str) -> bool:
    if character == UNKNOWN:
        return False
    return character.isalnum() or unicodedata.category(character).startswith("M") or not normalize(character)


def _tokens(text: str) -> list[str]:
    """Cut a text into runs of letters, digits, combining marks and invisible characters, and single other ones."""
    runs = ((of_word, list(run)) for of_word, run in groupby(text, _is_of_word))
    return [token for of_word, run in runs for token in (["".join(run)] if of_word else run)]


def unknown_part(word: str, is_known: Callable[[str], bool]) -> str:
    """Return a word from its first unknown token to the last; the whole word if all are known."""
    tokens = _tokens(word)
    unknown = [n for n, token in enumerate(tokens) if not is_known(token)]
    return "".join(tokens[unknown[0] : unknown[-1] + 1]) if unknown else word


def replace_unknown(
    alignment: Alignment,
    scores: Callable[[Pair], Sequence[Sequence[float]] | None],
    part: Callable[[str], str] = str,
) -> Alignment:
    """Replace each unknown token of the translation by the unknown part of its source word.

    UNKNOWN stands for each unknown piece there. The source word is the one with the best link, or the highest score
    of the pair's words `[J][I+1]`, the last column for `</s>`, if no link leads to a word that is more than
    punctuation. `part` returns the part of a source word that the model does not know: `Łódź` of `Berlin–Łódź`.
    Neighbouring unknown words with the same source word become one.
    """
    words, sentence = alignment.pair.target, alignment.pair.source
    if not any(UNKNOWN in word for word in words):
        return alignment
    rows: Sequence[Sequence[float]] | None = None
    target: list[str] = []
    numbers: list[int] = []  # number in the result of each word of the translation
    before = None  # source of the word before, if that ends with an unknown piece
    for j, word in enumerate(words):
        if UNKNOWN not in word:
            target.append(word)
            before = None
        else:
            source = _best({i: score for (i, linked), score in alignment.scores.items() if linked == j}, sentence)
            if source is None or is_punctuation(sentence[source]):
                rows = rows or scores(alignment.pair) or [[]] * len(words)
                by_score = _best(dict(enumerate(rows[j][:-1])), sentence)
                source = source if by_score is None else by_score
            start, end = _around_unknown(word)
            if source is not None and source == before and word.startswith(UNKNOWN):
                target[-1] += end
            else:
                core = "" if source is None else sentence[source]  # without punctuation around it
                inner = [n for n, c in enumerate(core) if not is_punctuation(c) and normalize(c)]
                copied = _NOT_IN_A_WORD.sub("", part(core[inner[0] : inner[-1] + 1] if inner else core))
                target.append(f"{start}{copied or NO_SOURCE}{end}")
            before = source if word.endswith(UNKNOWN) else None
        numbers.append(len(target) - 1)
    links: dict[tuple[int, int], float] = {}
    for (i, j), score in alignment.scores.items():
        link = i, numbers[j]
        links[link] = max(score, links.get(link, 0.0))
    return replace(alignment, pair=alignment.pair.with_target(tuple(target)), scores=links)


def _best(scores: Mapping[int, float], sentence: Sequence[str]) -> int | None:
    """Return the source word with the highest score; punctuation only if no other word has a score."""
    ranked = [(not is_punctuation(sentence[i]), score, -i) for i, score in scores.items() if score > 0]
    return -max(ranked)[2] if ranked else None


def _around_unknown(word: str) -> tuple[str, str]:
    """Return the text before the first token with an unknown piece and the text after the last one."""
    tokens = _tokens(word)
    first = tokens.index(UNKNOWN)
    last = len(tokens) - 1 - tokens[::-1].index(UNKNOWN)
    first -= first > 0 and _is_of_word(tokens[first - 1][0])
    last += last + 1 < len(tokens) and _is_of_word(tokens[last + 1][0])
    return "".join(tokens[:first]), "".join(tokens[last + 1 :])


@dataclass(frozen=True, slots=True)
class CopyingPair(Pair):
    """A source sentence with words that its translation must contain as they are."""

    copied: tuple[str, ...]  # numbers in the source that the translation must contain once each
    otherwise: Pair  # the sentence to translate instead if it does not

    def is_copied_by(self, words: Sequence[str]) -> bool:
        """Check that a translation contains each number once."""
        text = " ".join(words)
        return all(len(re.findall(rf"(?<!\d){number}(?!\d)", text)) == 1 for number in self.copied)


Sentence = Pair | str | Sequence[str]
"""A string whose words are between spaces, a list of words, or a pair, of which the source and the number are used."""

SEARCH_WORDS = 2000  # words in a slice of sentences to translate, which takes far longer than to align


def translate(
    aligner: Aligner,
    sentences: Iterable[Sentence],
    search: Search | None = None,
    on_choice: OnChoice | None = None,
    on_batch: OnBatch | None = None,
    words: str = "spaces",
) -> Generator[Alignment, None, None]:
    """Translate with the forward model, and align: yield an alignment with its translation for each sentence, in order.

        for alignment in translate(load("de-en"), ["Das Haus ist alt."], Search(beam=1)):
            print(" ".join(alignment.pair.target), "|||", alignment)

    The translations are text, Moses' tokens joined, in the model's case. A blank sentence stays blank.

    Args:
        aligner: of one model or two.
        sentences: any number of sentences.
        search: how to search; by default with a beam of 5 and fairseq's other defaults, for any model.
        on_choice: callback for the layers and heads that are read.
        on_batch: callback for the number of sentences translated, some at a time, and the number of pairs aligned.
        words: "unicode" to cut a translation at all white space, as `str.split` does, not at ASCII spaces only.

    Raises:
        TypeError, ValueError: an item is not a sentence.
        PairError: a sentence, or its translation, is longer than the model's limit, unless the aligner's `too_long` is
            "blank". Earlier alignments are yielded first.
    """
    return _Translating(aligner, search or Search(), words).align(number_sentences(sentences), on_choice, on_batch)


def batch_translator(aligner: Aligner, search: Search, longest: int) -> Callable[..., Generator[Alignment, None, None]]:
    """Return a function that translates sentences of at most `longest` pieces with an aligner made by `fixed`."""
    translating = _Translating(aligner, search)
    translating.translator.longest = min(longest, translating.translator.longest)
    return partial(translating.align, choices=aligner.choices)


def number_sentences(sentences: Iterable[Sentence]) -> Iterator[Pair]:
    """Yield sentences as pairs without a target, for translation; pairs keep their source and number."""
    if isinstance(sentences, str | bytes):
        raise TypeError(f"{shorten(repr(sentences))} is one sentence: give a list of sentences")
    for number, sentence in enumerate(sentences, 1):
        if isinstance(sentence, IdPair):
            raise TypeError(f"sentence {number} is given in ids: only text can be translated")
        if isinstance(sentence, CopyingPair):
            yield sentence
        elif isinstance(sentence, Pair):
            yield sentence.with_target(())
        else:
            yield Pair(words_of(sentence, f"sentence {number}"), (), number)


class _Translating:
    """Translates with a model, and aligns the translations with their sources."""

    def __init__(self, aligner: Aligner, search: Search, words: str = "spaces") -> None:
        self._aligner, self._search_by, self._words = aligner, search, words
        self._recorder = aligner.forward.recorder
        self.translator = self._recorder.translator(search, aligner.batch_tokens)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Translating, (self._aligner, self._search_by, self._words)

    def align(
        self,
        sentences: Iterable[Pair],
        on_choice: OnChoice | None,
        on_batch: OnBatch | None,
        choices: tuple[Choice, ...] = (),
    ) -> Generator[Alignment, None, None]:
        """Yield one alignment for each sentence, in order, translated and aligned a buffer at a time.

        `choices` are layer and head, if these are not to be chosen by the text.
        """
        places = [choice.place for choice in choices]

        def note_choice(choices: tuple[Choice, ...]) -> None:
            places.append(choices[0].place)
            if on_choice:
                on_choice(choices)

        tasks: dict[str, Task] = {"align": self._aligner.align_slice, "translate": self._translate}
        with self._aligner.open_pool(tasks, on_batch) as pool:
            # translations are blank if the sentence is blank or too long
            buffers = chunks(sentences, self._aligner.buffer, lambda pair: pair.memory())
            results = in_order(pool, "translate", SEARCH_WORDS, ((chunk, ()) for chunk in buffers))
            translated = (replace(pair or sentence, origin=sentence.origin) for sentence, pair in results)
            aligned = self._aligner.stream(translated, note_choice, on_batch, choices, pool)
            with closing(aligned):
                finished = (self._finish(alignment, places) for alignment in aligned)
                yield from self._aligner.checked(finished, lambda pair: pair.with_target(()))

    def _finish(self, alignment: Alignment, places: Sequence[Place]) -> Alignment:
        """Replace unknown pieces, and mark a sentence that was too long to be translated."""

        def scores(pair: Pair) -> Sequence[Sequence[float]] | None:
            pieces = encode(self._recorder, pair, "blank").pieces
            if pieces is None or not places:
                return None
            rows: list[list[float]] = self._aligner.forward.reader.scores([pieces], places[0])[0].tolist()
            return rows

        def is_known(token: str) -> bool:
            return self._recorder.unk not in self._recorder.encode(Pair((token,), (), 1)).source

        alignment = replace_unknown(alignment, scores, lambda word: unknown_part(word, is_known))
        pair = alignment.pair
        if pair.source and not pair.target and isinstance(self._encode(pair), str):
            return replace(alignment, skipped="too long")
        return alignment

    def _translate(self, sentences: Sequence[Pair], on_batch: OnBatch | None) -> list[Pair | PairError]:
        """Return a slice of sentences with their translations, as a task of the pool."""
        results: list[Pair | PairError] = [*sentences]
        waiting = dict(enumerate(sentences))
        while waiting:
            translations = zip(waiting.items(), self._search([*waiting.values()], on_batch), strict=True)
            waiting, on_batch = {}, None
            for (n, sentence), translation in translations:
                if isinstance(translation, PairError):
                    results[n] = translation
                elif isinstance(sentence, CopyingPair) and not (translation and sentence.is_copied_by(translation)):
                    waiting[n] = sentence.otherwise
                else:
                    if self._search_by.allow_unk:
                        translation = tuple(word.replace(UNKNOWN, "<unk>") for word in translation)
                    results[n] = sentence.with_target(split_words(" ".join(translation), self._words))
        return results

    def _search(self, sentences: Sequence[Pair], on_batch: OnBatch | None) -> list[tuple[str, ...] | PairError]:
        """Return the translations of sentences."""
        results: list[tuple[str, ...] | PairError] = [()] * len(sentences)
        encoded: dict[int, Sequence[int]] = {}
        for n, pair in enumerate(sentences):
            found = attempt(self._encode, pair)
            if isinstance(found, PairError):
                results[n] = found
            elif not isinstance(found, str):
                encoded[n] = found
            elif self._aligner.too_long != "blank":
                hint = f"shorten it, or leave such lines without translation ({BLANK})"
                line = pair.origin.line or pair.id
                results[n] = PairError(found, file=pair.origin.file, line=line, hint=hint)
        # in calls of 100 sentences of similar length, since a translator does not report progress during a call
        waiting = sorted((n for n, pieces in encoded.items() if pieces), key=lambda n: len(encoded[n]))
        for batch in chunks(waiting, 100):
            for n, words in zip(batch, self.translator([encoded[n] for n in batch]), strict=True):
                results[n] = words
            if on_batch:
                on_batch(len(batch))
        return results

    def _encode(self, pair: Pair) -> Sequence[int] | str:
        """Return the pieces of a sentence, none of a blank one, or say that it is too long."""
        longest = self.translator.longest
        if exceeds(pair.source, longest):
            length, longest = f"{sum(map(len, pair.source)):,} characters", LONGEST_PIECE * longest
        else:
            encoded = self._recorder.encode(Pair(pair.source, (), pair.id))
            if max(encoded.source_words) == NULL:
                return ()
            if len(encoded.source) <= longest:
                return encoded.source
            length = f"{len(encoded.source):,} pieces with </s>"
        name = f"the forward model ({self._recorder.name})" if self._aligner.reverse else "the model"
        return f"source has {length}, {name} takes {longest:,}"
