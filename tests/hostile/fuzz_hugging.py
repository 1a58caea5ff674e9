"""JSON files damaged at random."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any


def values(rng: random.Random) -> Any:
    """Something that does not belong there, as far as JSON has it."""
    deep: Any = []
    for _ in range(300):
        deep = [deep]
    return rng.choice(
        [
            *(None, True, False, 0, -1, 1, 2, 3, 7, 40, 1000, 65_536, 10**6, 10**9, 2**31, 2**63, 10**20, -(10**20)),
            *(0.5, 4.0, 1e308, float("nan"), float("inf"), "", "4", "a" * 10**5, "../../etc/passwd", "/dev/zero"),
            *("\x1b[31m\u202e", "\ud800", "\0", "</s>", "<unk>", "(a+)+$", [], {}, [[]], [4] * 1000, deep),
            *({"a": deep}, {"layers": 10**9}, ["a", 1], [["a", 0.0]] * 3, {"</s>": -1}, {"type": "BPE"}),
        ]
    )


def damage_json(path: Path, rng: random.Random) -> None:
    """Put something else in a place of a document, take a part out, or call it something else."""
    content = json.loads(path.read_text(encoding="utf-8"))
    place = content
    while isinstance(place, (dict, list)) and place:
        key: Any = rng.choice(list(place)) if isinstance(place, dict) else rng.randrange(len(place))
        if isinstance(place[key], (dict, list)) and place[key] and rng.random() < 0.8:
            place = place[key]
            continue
        action = rng.randrange(6)
        if action == 0:
            del place[key]
        elif action == 1 and isinstance(place, dict):
            place[rng.choice(["more", "", "a" * 10**5, "<unk>", "\0"])] = place.pop(key)
        elif action == 2 and isinstance(place, list):
            place *= rng.choice([2, 50])
        else:
            place[key] = values(rng)
        break
    path.write_text(json.dumps(content), encoding="utf-8")
