"""The same sentences aligned by attention weight and by norm, side by side, judged by hand-made links.

Run it with `.venv/bin/python examples/weight_and_norm.py`; `scripts/demo` does.
"""

from itertools import zip_longest

from align import error_grid, load, parse_marked

PAIRS = [  # chosen because the two differ here; on most sentences they agree. p: possible
    (
        "Den Brief hat meine Mutter geschrieben .",
        "My mother wrote the letter .",
        "0-3 1-4 2p2 3-0 4-1 5-2 6-5",
    ),
    (
        "Nach dem Essen gehen wir oft im Park spazieren .",
        "We often go for a walk in the park after dinner .",
        "0-9 1p9 1p10 2-10 3-2 3p5 4-0 5-1 6-6 6-7 7-8 8p3 8p4 8-5 9-11",
    ),
]

# Each target word's best source word, at one layer, all of its heads: the paper's own setting.
by_weight, by_norm = (
    load(score=score, position="input", threshold=None, layer=1, head="all") for score in ("weight", "norm")
)

for source, target, links in PAIRS:
    gold = parse_marked(links)
    columns = []
    for title, aligner in (("attention weight", by_weight), ("norm", by_norm)):
        alignment = aligner.align(source, target)
        words = alignment.pair.source, alignment.pair.target
        wrong = [f"{words[1][j]} = {words[0][i]}" for i, j in sorted(alignment.links - gold.possible)]
        grid = error_grid(alignment.links, gold, alignment.pair).split("\n")
        columns.append([title, "", *grid, "", f"wrong: {', '.join(wrong) or 'none'}"])
    width = max(map(len, columns[0])) + 6
    for left, right in zip_longest(*columns, fillvalue=""):
        print(f"{left:<{width}}{right}".rstrip())
    print()
print("■ right  ✗ wrong  □ missing  ▣ possible, linked  ▫ possible, not linked")
