"""Warn of a text that is not like a model's own, by its pieces, the consistency of its links, and its languages.

A model aligns other languages, too, but badly. py3langid tells how well each language explains a line. Words that both
sides share (names, numbers, code) say nothing about either and are left out. A side is in another language if that one
explains most of its lines, and all of them together, clearly better than the model's own language and those that are
close to it.
"""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

from align.core.aligner import Direction
from align.core.backend import Recorder, StateRecorder
from align.core.choice import consistency_of, known_choice
from align.core.stream import Encoded, SideNames, encode
from align.core.text import IdPair
from align.core.types import Choice, Pair, Pieces, Place
from align.models.causal.template import NAMES
from align.models.defaults import ENCODER
from align.models.languages import base_language, is_group, same_language
from align.models.preprocess import UNSPACED

MAX_UNKNOWN, MIN_UNKNOWN = 1 / 3, 5
"""Share and number of unknown pieces that cause a warning in any text, however short. A foreign script has as many; the
mark of a word's beginning is a known piece.
"""

MARKS = frozenset(".,:;!?")
MIN_MARKS = 50  # below this number of punctuation marks at the ends of words their pieces are not reliable

SAVED_PER_MARK = 0.2
"""More additional pieces per attached mark than this cause a warning.

For BPE of 2,000 to 20,000 merges, learned from 20,000 pairs of German and English, they are 0.43 to 0.69 if the
training text was Moses' tokens, and -0.67 to -0.36 if it was plain text; for the bundled models they are 0.
"""

MIN_PIECES = 100  # below this number of pieces shares are not reliable

SURE_CONSISTENCY, SURE_QUALITY = 2.0, 0.25
"""Lexical consistency above which unrelated sentences are not compared, and the same times agreement for encoders."""

MIN_PAIRS, MAX_PAIRS = 100, 200
"""As many pairs are needed, and are taken (no more in encoders), to compare with unrelated sentences."""

RELATED = 2.0
"""Sentences that belong together have at least this multiple of the consistency of others
(eval/results/bundled.doubts.tsv).
"""

LANGUAGE_PAIRS = 100  # number of pairs that are checked, from the beginning of a text
MAX_CHARACTERS = 1_000  # length at which a line is cut

MIN_SHARE = 0.6
"""Share of the letters that tell the language, in lines which the other language explains better."""

COMMON_WORDS = {
    "de": (
        "aber als auch auf aus bei dass durch ein eine einem einen einer eines für gibt haben ich ihr ist kann können "
        "mehr mit müssen nach nicht noch nur oder sein sich sie sind sowie über und uns unter von wenn werden wie wir "
        "wird wurde wurden zum zur"
    ),
    "en": (
        "about after and are be been but by can from has have his how if it its not other should that the their them "
        "there these they this were what when which who will with would you your"
    ),
}
"""Words of the bundled models' languages that are rare in other languages."""

RELATIVES = (
    *("af nl", "an es ext gl", "ar ary arz", "be uk", "bg mk", "bs hr sr", "cs sk", "da nn no", "de lb", "el grc"),
    *("en pcm", "gl pt", "hbo he", "hi mr ne", "id ms", "ja wuu yue zh", "mk sr", "xh zu"),
)
"""Base codes of languages that are not told apart: Japanese names and titles have Chinese characters alone."""

PLACEHOLDERS = ("source", "src", "target", "tgt", "trg")
"""Names of a model's sides that are those of no language."""

LOCK_SECONDS = 20.0
"""How long a thread waits for another one that loads py3langid, before it leaves pairs unchecked."""

_MARKS = ".,:;!?()[]\"'`´‘’“”„«»‹›…¿¡-–—*#"
_CODE = re.compile(r"[\d@/\\_<>{}=$|*#%~^+]|::|->|\(\)|&\w+;|^--?\w|\w[.:]\w|[a-z][A-Z]")
_BETWEEN_UNSPACED = re.compile(rf"(?<=[{UNSPACED}]) (?=[{UNSPACED}])")

_lock = threading.Lock()


class ModelCheck:
    """Compares a text with what models were trained on; the languages are those of one model.

    Warnings about the first pairs of a text come once for each text, that about its languages once in all. Threads
    may share it.
    """

    def __init__(
        self, model: str, source: str, target: str, sides: tuple[str, str] = ("source", "target"), either: bool = False
    ) -> None:
        """Begin a text for a model, its languages (`either`: or others, if asked) and what the user calls its sides."""
        self._begun_with = model, source, target, sides, either
        self._sides = [_Side(source), _Side(target)]
        self._pairs = 0
        # whether no warning can come any more
        self.done = not any(side.code for side in self._sides)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what it began with: another process checks the text that it gets."""
        return type(self), self._begun_with

    def begin(
        self, direction: Direction, encoded: Sequence[Encoded], choice: Choice | None, terms: SideNames
    ) -> list[str]:
        """Return warnings about the first pairs of a text; see `align.core.aligner.TextCheck`."""
        recorder = direction.recorder
        warnings = [*_unknown(recorder, terms, [item.pieces for item in encoded if item.pieces])]
        texts = [item for item in encoded if not isinstance(item.pair, IdPair)]  # ids cannot be segmented again
        pairs = [(item.pair, item.pieces) for item in texts if item.pieces][:200]  # segmented again
        warnings += [*_swapped(recorder, terms, pairs), *_punctuation(recorder, terms, pairs)]
        warnings += [*_spaced(recorder, terms, pairs)]
        if choice is None or known_choice(recorder, direction.settings, {}):
            return warnings  # as asked, however it reads the text
        if (choice.consistency or 0) < (SURE_QUALITY if isinstance(recorder, StateRecorder) else SURE_CONSISTENCY):
            warnings += _inconsistent(direction, choice.place, texts, terms)
        return warnings

    def add(self, pairs: Iterable[Pair]) -> str:
        """Return a warning if the text up to these pairs is in other languages; "" otherwise, and ever after."""
        if self.done or not _lock.acquire(timeout=LOCK_SECONDS):
            return ""
        try:
            return "" if self.done else self._add(pairs)  # another thread may have finished
        except (ImportError, OSError):  # py3langid needs lzma, which a Python may lack, and space for a temporary file
            self.done = True
            return ""
        finally:
            _lock.release()

    def _add(self, pairs: Iterable[Pair]) -> str:
        for pair in islice(pairs, LANGUAGE_PAIRS - self._pairs):
            self._pairs += 1
            lines = [" ".join(words)[:MAX_CHARACTERS].split(" ") for words in (pair.source, pair.target)]
            first, second = ({_bare(word) for word in line} for line in lines)
            for side, line in zip(self._sides, lines, strict=True):
                side.add(line, first & second, is_copy=first == second)
        found = [side.other_language(20.0) for side in self._sides]
        self.done = any(found) or self._pairs == LANGUAGE_PAIRS
        if not any(found):
            return ""
        model, _, _, names, either = self._begun_with
        own = [side.code for side in self._sides]
        likely = [other or side.other_language(0.0) for other, side in zip(found, self._sides, strict=True)]
        swapped = all(map(same_language, likely, own[::-1]))
        source, target = (language_name(code) for code in (likely if swapped else found))
        read, written = (language_name(code) or base_language(code) for code in own)
        if source and target:
            problem = f"the {names[0]} looks like {source} and the {names[1]} like {target}"
            problem += f"; {model} translates {read} to {written}"
        elif source:
            problem = f"the {names[0]} looks like {source}; {model} reads {read}"
        else:
            problem = f"the {names[1]} looks like {target}; {model} writes {written}"
        if swapped:
            advice = f'give ‹source_lang="{own[1]}"› and ‹target_lang="{own[0]}"›, or ' if either else ""
            return f"{problem}: {advice}swap the two sides"
        if (source or read) != (target or written) and all(own):
            return f"{problem}: use a model for {source or read} to {target or written}, or {ENCODER}"
        return problem


def _count(*encoded: Pieces) -> int:
    return sum(len(pieces.source) + len(pieces.target) for pieces in encoded)


def _unknown(recorder: Recorder, terms: SideNames, encoded: Sequence[Pieces]) -> Iterator[str]:
    sources = [number for pieces in encoded for number in pieces.source[:-1]]  # without </s>
    targets = [number for pieces in encoded for number in pieces.target]
    for side, own, ids in ((terms.source, "source", sources), (terms.target, "target", targets)):
        count = ids.count(recorder.unk)
        share = count / max(1, len(ids))
        if (len(ids) >= MIN_PIECES and share > 0.1) or (count >= MIN_UNKNOWN and share > MAX_UNKNOWN):
            pairs = "pair" if len(encoded) == 1 else f"{len(encoded):,} pairs"
            yield (
                f"{share:.0%} of the {side} pieces in the first {pairs} are unknown to {terms.model}: "
                f"check that this side is in its {own} language, and check its dictionary, case and subwords"
            )


def _swapped(recorder: Recorder, terms: SideNames, encoded: Sequence[tuple[Pair, Pieces]]) -> Iterator[str]:
    """Yield a warning where a text takes clearly fewer pieces with its sides exchanged."""
    as_given = _count(*(pieces for _, pieces in encoded))
    swapped = _count(*(recorder.encode(Pair(pair.target, pair.source, pair.id)) for pair, _ in encoded))
    if as_given >= MIN_PIECES and swapped < 0.8 * as_given:
        yield (
            f"the text takes {as_given:,} pieces of {terms.model}, and {swapped:,} with its sides swapped: "
            f"check the order of the sides"
        )


def _punctuation(recorder: Recorder, terms: SideNames, encoded: Sequence[tuple[Pair, Pieces]]) -> Iterator[str]:
    """Yield a warning where punctuation is attached to words and the model knows it apart, or the other way round."""
    attached = as_given = pieces_apart = 0
    for pair, pieces in encoded:
        source, target = _marks_apart(pair.source), _marks_apart(pair.target)
        if marks := len(source) + len(target) - len(pair.source) - len(pair.target):
            attached += marks
            as_given += _count(pieces)
            pieces_apart += _count(recorder.encode(Pair(source, target, pair.id)))
    if attached >= MIN_MARKS and as_given - pieces_apart > SAVED_PER_MARK * attached:
        yield (
            f"with punctuation apart from words (`house ,`) the text takes {pieces_apart:,} pieces of {terms.model} in "
            f"place of {as_given:,}: if {terms.model} was trained on tokenised text, name its tokenizer"
        )
    apart = sum(word in MARKS for pair, _ in encoded for word in (*pair.source, *pair.target))
    if recorder.raw and apart >= MIN_MARKS and attached < 0.05 * apart:  # a few abbreviations
        yield (
            f"punctuation is apart from words (`house ,`), as in tokenised text, but {terms.model} reads text as it is "
            "written: use a version of the text that is not tokenised"
        )


def _spaced(recorder: Recorder, terms: SideNames, encoded: Sequence[tuple[Pair, Pieces]]) -> Iterator[str]:
    """Yield a warning where an encoder reads words of scripts without spaces as if they had some."""
    lines = [" ".join(side) for pair, _ in encoded for side in (pair.source, pair.target)]
    spaced = sum(bool(_BETWEEN_UNSPACED.search(line)) for line in lines)
    if isinstance(recorder, StateRecorder) and spaced > len(lines) / 4:  # half is one of the two sides
        yield (
            f"words of Chinese, Japanese or Thai stand between spaces, which {terms.model} was not trained on: "
            "links are better with `--words segmented`, which hides them from it"
        )


def _marks_apart(words: Sequence[str]) -> tuple[str, ...]:
    """Return a sentence with the mark that ends a word as a separate word: `house ,` for `house,`."""
    parts = ((word[:-1], word[-1]) if word[-1] in MARKS and word[:-1].isalpha() else (word,) for word in words)
    return tuple(part for pair in parts for part in pair)


def _inconsistent(direction: Direction, place: Place, texts: Sequence[Encoded], terms: SideNames) -> Iterator[str]:
    """Yield a warning if links are not more consistent than those of unrelated or neighbouring sentences.

    The former holds for text in other languages, for text that is no translation and for untrained models, the latter
    for text with one side shifted by a line. The first position of the place is judged.
    """
    different = {(item.pair.source, item.pair.target): item.pair for item in texts if item.pieces}
    pairs = list(different.values())[: MIN_PAIRS if isinstance(direction.recorder, StateRecorder) else MAX_PAIRS]
    if len(pairs) < MIN_PAIRS:
        return
    position, cell = next(iter(place.cells().items()))

    def consistency(shift: int) -> float:
        """Return the lexical consistency of each source with the target a number of pairs further down."""
        targets = [pairs[(n + shift) % len(pairs)].target for n in range(len(pairs))]
        moved = [
            encode(direction.recorder, Pair(pair.source, target, pair.id), "blank")
            for pair, target in zip(pairs, targets, strict=True)
        ]
        readable = [item for item in moved if item.pieces]
        return float(consistency_of(direction.reader, readable, {position: [cell]})[position].max())

    in_step = consistency(0)
    if in_step >= (SURE_QUALITY if isinstance(direction.recorder, StateRecorder) else SURE_CONSISTENCY):
        return
    later, earlier = consistency(1), consistency(-1)
    if max(later, earlier) > RELATED * in_step:
        which = "one line further down" if later > earlier else "one line further up"
        yield (
            f"the {terms.source} fits the {terms.target} {which} better "
            f"(lexical consistency {max(later, earlier):.2f} against {in_step:.2f}): one side may be shifted by a line"
        )
    elif in_step < RELATED * max(later, earlier):
        yield (
            f"{terms.model} links these sentences hardly more consistently than unrelated sentences "
            f"(lexical consistency {in_step:.2f} against {max(later, earlier):.2f}): check the languages, "
            f"{'the template, ' * direction.recorder.prompted}that the sides are translations of each other, and that "
            "the model is trained"
        )


class _Side:
    """Compares the lines of one side with the model's language."""

    def __init__(self, code: str) -> None:
        # "" where it is unknown: a group of languages, or a placeholder such as "src"
        self.code = "" if is_group(code) or code.lower() in PLACEHOLDERS else code
        self._common = frozenset(COMMON_WORDS.get(code[:2] if code[2:3] in ("", "-", "_") else "", "").split())
        self._lines, self._words = set[str](), set[str]()  # seen
        self._all_letters = 0
        self._letters = 0  # those that tell the language
        self._unsure = 0  # of these, those in lines without the language's common words
        self._unread: list[str] = []  # such lines that are not yet identified
        # For each language: nats by which it explains these lines worse than the best one of each line, and letters in
        # lines that it explains better than the model's language.
        self._behind: dict[str, float] = defaultdict(float)
        self._better: dict[str, int] = defaultdict(int)

    def add(self, words: Sequence[str], shared: Collection[str], is_copy: bool) -> None:
        """Take a new line without code, names, and long words that the other side or an earlier line has.

        Of a copy of the other side only the letters count.
        """
        if (line := " ".join(words)) in self._lines:
            return
        self._lines.add(line)
        self._all_letters += _count_letters(line)
        if is_copy:
            return
        kept = []
        bare_words = [_bare(word) for word in words]
        for word, bare in zip(words, bare_words, strict=True):
            repeated = (len(bare) > 1 and bare in shared) or (len(bare) > 3 and bare in self._words)
            is_name = len(bare) > 1 and word.isupper() and _has_capital(word)
            if bare and not repeated and not is_name and not _CODE.search(word):
                kept.append(word)
        self._words.update(bare_words)
        text = _BETWEEN_UNSPACED.sub("", " ".join(kept))
        letters = _count_letters(text)
        lower = sum(not _has_capital(word) for word in kept)
        if letters and lower >= len(kept) / 3:  # otherwise it holds names or titles
            self._letters += letters
            # Two common words tell a line's language without py3langid, which takes time to load.
            if len(self._common.intersection(bare_words)) < 2:
                self._unsure += letters
                self._unread.append(text)

    def other_language(self, advantage: float) -> str:
        """Return the language that explains the lines better than the model's own by these nats; "" without one."""
        if not self.code or self._unsure < max(20, MIN_SHARE * self._letters):
            return ""
        identifier = _load_identifier()
        own = _relatives(self.code, identifier.labels)
        if not own:
            self.code = ""
            return ""
        for text in self._unread:
            ranked = identifier.rank(text)
            best_own = max(score for label, score in ranked if label in own)
            for label, score in ranked:
                self._behind[label] += score - ranked[0][1]
                self._better[label] += _count_letters(text) * (score > best_own)
        self._unread = []
        others = sorted(set(identifier.labels) - own, key=lambda label: -self._behind[label])
        ahead = self._behind[others[0]] - max(self._behind[label] for label in own)
        least = max(MIN_SHARE * self._letters, 0.2 * self._all_letters)  # the latter with names, code and copies
        if ahead <= advantage or self._better[others[0]] < least:
            return ""
        close = _relatives(others[0], identifier.labels)
        return next((label for label in others if label in close and language_name(label)), "")


@lru_cache(maxsize=1)
def _load_identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE)


def _bare(word: str) -> str:
    return word.strip(_MARKS).casefold()


def _has_capital(word: str) -> bool:
    """Tell whether a word begins with a Latin capital; in other scripts capitals hide no names that could be told."""
    first = word.strip(_MARKS)[:1]
    return first.isupper() and (first < "\u0250" or "\u1e00" <= first <= "\u1eff")


def _count_letters(text: str) -> int:
    return sum(1 + (character >= "\u2e80") for character in text if character.isalpha())


def _relatives(code: str, known: Sequence[str]) -> frozenset[str]:
    """Return those of the known languages that are not told apart from a language; none if it is not known."""
    base = base_language(code)
    related = {base}.union(*(group.split() for group in RELATIVES if base in group.split()))
    return frozenset(label for label in known if base_language(label) in related)


def language_name(code: str) -> str:
    """Return the English name of a language; "" if it is not in the table of names."""
    return next((name for known, name in NAMES.items() if same_language(known, code)), "")
