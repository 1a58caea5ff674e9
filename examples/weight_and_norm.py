"""The same sentences aligned by attention weight and by norm, side by side: the point of the paper in two grids.

Run it with `.venv/bin/python examples/weight_and_norm.py`; `scripts/demo` does.
"""

from itertools import zip_longest

from align import heat_grid, load

PAIRS = [  # chosen because the two differ here; on most sentences they agree
    ("Den Brief hat meine Mutter geschrieben .", "My mother wrote the letter ."),
    ("Nach dem Essen gehen wir oft im Park spazieren .", "We often go for a walk in the park after dinner ."),
]

# One layer, all of its heads: the paper's own setting. (What is best for alignment may be one head of it.)
by_weight, by_norm = (load(score=score, layer=1, head="all") for score in ("weight", "norm"))

for source, target in PAIRS:
    columns = []
    for title, aligner in (("attention weight", by_weight), ("norm", by_norm)):
        alignment = aligner.align(source, target)
        grid = heat_grid(alignment, aligner.word_scores(source, target)).split("\n")
        columns.append([title, "", *grid, "", str(alignment)])
    width = max(map(len, columns[0])) + 6
    for left, right in zip_longest(*columns, fillvalue=""):
        print(f"{left:<{width}}{right}".rstrip())
    print()
