"""One sentence pair by two models, one for each direction, and both symmetrised.

Run it with `.venv/bin/python examples/both_directions.py`. The same for whole files:
`extract-align --reverse-model en-de FILE`.
"""

from itertools import zip_longest

from align import grid, load, two_way

PAIRS = [
    ("Die Kinder spielen im Garten hinter dem Haus .", "The children are playing in the garden behind the house ."),
    ("Er lädt seine Freunde zum Abendessen ein .", "He invites his friends to dinner ."),
]

forward, reverse = load("de-en"), load("en-de")
ways = {
    f"de-en ({forward.forward.recorder.name})": two_way(forward, reverse, "forward"),
    f"en-de ({reverse.forward.recorder.name})": two_way(forward, reverse, "reverse"),
    "both": two_way(forward, reverse),
}

for source, target in PAIRS:
    columns = [[title, "", *grid(aligner.align(source, target)).split("\n")] for title, aligner in ways.items()]
    widths = [max(map(len, column)) + 4 for column in columns]
    for row in zip_longest(*columns, fillvalue=""):
        print("".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
    print()
