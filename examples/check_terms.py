"""Check by the links of JSON lines whether the terms of a glossary were translated as it says.

A line of the glossary is a term, a TAB and a translation. Prints a line for each term that stands in a source: number
of the pair, `yes`, `no` or `unlinked`, words of the term, words linked to it, and the translations of the glossary.

Run it with `extract-align -f jsonl FILE | python examples/check_terms.py GLOSSARY`.
"""

import json
import signal
import sys
import unicodedata
from operator import contains

from align.core.text import fold, split_words


def fold_words(text):
    """Return the words of a term as they are compared: composed, without invisible characters and without case."""
    return tuple(filter(None, map(fold, split_words(text))))


def spell(word):
    """Return a word of the text as a glossary may have it: with punctuation around it, and without."""
    folded = fold(word)
    return folded, folded.strip("".join(char for char in folded if unicodedata.category(char).startswith("P")))


def stands(term, sentence, start):
    """Return whether a term stands in a sentence of spellings, from a position on."""
    words = sentence[start : start + len(term)]
    return len(words) == len(term) and all(map(contains, words, term))


signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it quietly
glossary = {}  # the translations of each term, by the term's first word
with open(sys.argv[1], encoding="utf-8") as lines:
    for number, line in enumerate(lines, 1):
        sides = line.rstrip("\n").split("\t")
        if len(sides) != 2 or not all(map(fold_words, sides)):
            sys.exit(f"{sys.argv[1]}, line {number}: expected a term, a TAB and a translation")
        term = fold_words(sides[0])
        glossary.setdefault(term[0], {}).setdefault(term, []).append(sides[1])

for line in sys.stdin:
    pair = json.loads(line)
    source, target = ([spell(word) for word in pair[side]] for side in ("source", "target"))
    end = 0
    for start, spellings in enumerate(source):
        terms = [term for word in spellings for term in glossary.get(word, ()) if stands(term, source, start)]
        if start < end or not terms:  # of terms that overlap, the first counts
            continue
        term = max(terms, key=len)
        end = start + len(term)
        linked = sorted({j for i, j in pair["links"] if start <= i < end})
        translations = glossary[term[0]][term]
        agrees = any(
            stands(words, target, j - k)
            for words in map(fold_words, translations)
            for j in linked
            for k in range(min(len(words), j + 1))
        )
        verdict = ("yes" if agrees else "no") if linked else "unlinked"
        words = pair["source"][start:end], pair["target"][linked[0] : linked[-1] + 1] if linked else []
        print(pair["id"], verdict, *map(" ".join, words), " | ".join(translations), sep="\t")
