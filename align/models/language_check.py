"""Compare the first lines of a text with the languages of a model, which aligns other languages, too, but badly.

py3langid tells how well each language explains a line. Words that both sides share (names, numbers, code) say nothing
about either and are left out. A side is in another language if that one explains most of its lines, and all of them
together, clearly better than the model's own language and those that are close to it.
"""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

from align.core.types import Pair
from align.models.causal.template import NAMES
from align.models.languages import base_language, is_group, same_language
from align.models.preprocess import UNSPACED

MAX_PAIRS = 100
"""Number of pairs that are checked, from the beginning of a text."""

MAX_CHARACTERS = 1_000
"""Length at which a line is cut."""

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

RELATED = (
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


class LanguageCheck:
    """Compares the first lines of a text with the languages of a model; there is one for each model and run.

    Threads may share it.
    """

    def __init__(self, model: str, source: str, target: str, sides: tuple[str, str] = ("source", "target")) -> None:
        """Begin a text for the model of this name and these languages; `sides` are what the user calls those."""
        self._begun_with = model, source, target, sides
        self._sides = [_Side(source), _Side(target)]
        self._pairs = 0
        # whether no warning can come any more
        self.done = not any(side.code for side in self._sides)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what it began with: another process checks the text that it gets."""
        return type(self), self._begun_with

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
        for pair in islice(pairs, MAX_PAIRS - self._pairs):
            self._pairs += 1
            lines = [" ".join(words)[:MAX_CHARACTERS].split(" ") for words in (pair.source, pair.target)]
            first, second = ({_bare(word) for word in line} for line in lines)
            for side, line in zip(self._sides, lines, strict=True):
                side.add(line, first & second, is_copy=first == second)
        found = [side.other_language(20.0) for side in self._sides]
        self.done = any(found) or self._pairs == MAX_PAIRS
        if not any(found):
            return ""
        model, *_, names = self._begun_with
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
            return f"{problem}: swap the two sides"
        if (source or read) != (target or written) and all(own):
            return f"{problem}: take a model for {source or read} to {target or written}"
        return problem


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
    related = {base}.union(*(group.split() for group in RELATED if base in group.split()))
    return frozenset(label for label in known if base_language(label) in related)


def language_name(code: str) -> str:
    """Return the English name of a language; "" if it is not in the table of names."""
    return next((name for known, name in NAMES.items() if same_language(known, code)), "")
