"""A toy text with two systems and gold, and how to read what a page shows of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from align.core.types import Pair
from align.evaluation.link_formats import make_gold, parse_pharaoh
from align.view.page import System

Visit = Callable[..., Any]

TEXT = [
    Pair(("Das", "Haus", "ist", "alt"), ("The", "house", "is", "old"), 1),
    Pair(("Wir", "sehen", "es"), ("We", "see", "it", "here"), 2),
    Pair(("Guten", "Tag"), ("Good", "day"), 3),
]
GOLD = [
    make_gold([(0, 0), (1, 1), (2, 2)], [(3, 2), (3, 3)]),
    make_gold([(0, 0), (1, 1), (2, 2)]),
    make_gold([(0, 0), (1, 1)]),
]


def system(name: str, *lines: str, **more: Any) -> System:
    return System(name, [parse_pharaoh(line) for line in lines], **more)


ONE = system("one", "0-0 1-1 1-2 3-3", "0-0 1-2", "0-0 1-1", scores=[{(1, 1): 0.75}, {}, {}])
TWO = system("two", "0-0 1-1 2-2", "0-0 1-1 2-2", "0-0 1-1")


def words(page: Any, pair: int, panel: int) -> Any:
    """The words of a panel, source first; panel 0 is gold's."""
    return page.locator(f"#pair-{pair} .panel").nth(panel).locator(".word")


def lines(page: Any, pair: int) -> list[dict[str, str]]:
    """The links that are drawn in each panel, with their class."""
    read = "nodes => nodes.map(panel => Object.fromEntries([...panel.querySelectorAll('.line')].map("
    read += "line => [line.dataset.link, line.getAttribute('class').replace('line ', '')])))"
    found: list[dict[str, str]] = page.locator(f"#pair-{pair} .panel").evaluate_all(read)
    return found


def numbers(page: Any) -> list[str]:
    return [card.get_attribute("id").removeprefix("pair-") for card in page.locator(".card").all()]
