"""A recipe for trainings of a few seconds."""

from __future__ import annotations

TINY = """
[data]
valid_lines = 4
[text]
vocabulary = 120
min_count = 1
max_pieces = 200
[checkpoint]
select = "{select}"
average = 2
[fairseq]
arch = "align_small"
encoder-layers = 1
decoder-layers = 2
encoder-embed-dim = 16
decoder-embed-dim = 16
criterion = "blockwise_label_smoothed_cross_entropy"
optimizer = "adam"
lr = {lr}
max-tokens = {max_tokens}
max-update = {updates}
save-interval-updates = {interval}
keep-interval-updates = 3
no-epoch-checkpoints = true
"""

AT_INTERVALS = """save-interval = 100
validate-interval = 100
validate-interval-updates = {interval}
"""


def tiny_recipe(updates: int) -> str:
    """A recipe that saves and validates at every second update, and averages."""
    return TINY.format(updates=updates, interval=2, select="average", lr=0.01, max_tokens=400)


def steady_recipe(updates: int, select: str, interval: int) -> str:
    """A recipe that saves and validates at these intervals only, and takes these checkpoints."""
    recipe = TINY + AT_INTERVALS
    return recipe.format(updates=updates, interval=interval, select=select, lr=0.001, max_tokens=150)
