"""List the translations that a bitext holds, the best attested first, from the links of JSON lines.

Source and target words that links connect are one unit, as `Informationsgesellschaft` and `information society`; a word
without a link is a unit without a translation. Case and punctuation around words are ignored; a unit is printed in its
most frequent spelling. Columns: units with this translation, their log-likelihood ratio (Dunning 1993; negative if the
two occur together less often than by chance), Dice coefficient, p(target|source), p(source|target), source, target.

Run it with `extract-align -f jsonl FILE | python examples/lexicon.py [--sort COLUMN] [--least N]`.
"""

import argparse
import json
import math
import signal
import sys
import unicodedata
from collections import Counter, defaultdict

from align.core.text import fold

COLUMNS = ("count", "llr", "dice", "forward", "reverse")


def bare(word):
    """Return a word without the punctuation around it."""
    return word.strip("".join(character for character in word if unicodedata.category(character)[0] == "P"))


def units(pair):
    """Return the words of each unit: source positions and target positions, one of which may be empty."""
    sides = [[bare(word) for word in pair[side]] for side in ("source", "target")]
    found = [({i}, set()) for i, word in enumerate(sides[0]) if word]
    found += [(set(), {j}) for j, word in enumerate(sides[1]) if word]
    for i, j in pair["links"]:
        if sides[0][i] and sides[1][j]:
            joined = [unit for unit in found if i in unit[0] or j in unit[1]]
            found = [unit for unit in found if unit not in joined]
            found.append(tuple(set().union(*positions) for positions in zip(*joined, strict=True)))
    return [tuple(spell(words, places) for words, places in zip(sides, unit, strict=True)) for unit in found]


def spell(words, positions):
    """Return words with spaces between, and with `…` where others stand between them."""
    return "".join(
        ("" if not n else " " if position - 1 in positions else " … ") + words[position]
        for n, position in enumerate(sorted(positions))
    )


def log_likelihood_ratio(both, source, target, total):
    """Return how much better two words are explained together than as independent, from their counts (Dunning 1993)."""
    cells = both, source - both, target - both, total - source - target + both
    margins = source, total - source, target, total - target
    entropy = [sum(n * math.log(n / total) for n in counts if n) for counts in (cells, margins)]
    return math.copysign(2 * max(0, entropy[0] - entropy[1]), both * total - source * target)


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--sort", choices=COLUMNS, default="llr", help="the highest first (default: %(default)s)")
parser.add_argument("--least", type=int, default=2, metavar="N", help="of the count (default: %(default)s)")
options = parser.parse_args()
signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it quietly
times, of_source, of_target = Counter(), Counter(), Counter()
spellings = defaultdict(Counter), defaultdict(Counter)  # of the source, of the target
for line in sys.stdin:
    for unit in units(json.loads(line)):
        source, target = map(fold, unit)
        times[source, target] += 1
        of_source[source] += 1
        of_target[target] += 1
        for of_side, folded, spelling in zip(spellings, (source, target), unit, strict=True):
            of_side[folded][spelling] += 1

total, rows = times.total(), []
for (source, target), both in times.items():
    if source and target and both >= options.least:
        of_both = of_source[source], of_target[target]
        llr = log_likelihood_ratio(both, *of_both, total)
        rows.append((both, llr, 2 * both / sum(of_both), both / of_both[0], both / of_both[1], source, target))
column = COLUMNS.index(options.sort)
for *numbers, source, target in sorted(rows, key=lambda row: (-row[column], -row[1], row[5:])):
    names = (of_side[word].most_common(1)[0][0] for of_side, word in zip(spellings, (source, target), strict=True))
    print("{}\t{:.1f}\t{:.2f}\t{:.2f}\t{:.2f}".format(*numbers), *names, sep="\t")
