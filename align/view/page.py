"""Write links as one self-contained HTML file for any browser, which loads nothing from the network.

The files in `offline/` are combined into one, whose own policy (Content-Security-Policy) permits no other script or
style and no loading. Data from files is in one block of JSON, and the scripts write it as text.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np

from align.core.formats import to_json
from align.core.types import Cell, Gold, Links, Pair, Position, Score
from align.evaluation.metrics import Counts, aer, count_all

SCRIPTS = ("data.js", "draw.js", "card.js", "list.js", "edit.js", "start.js")
"""Scripts in the order in which they run."""

LinkScores = Mapping[tuple[int, int], float | None]


@dataclass(frozen=True)
class System:
    """The links of one system, by sentence pair."""

    name: str
    links: Sequence[Links]
    scores: Sequence[LinkScores] = ()  # of its links; empty if there are none
    maybe: Sequence[Links] = ()  # those of its links that are not sure; empty if it does not tell them apart


@dataclass(frozen=True)
class Attention:
    """Attention of a model's C cells.

    `shares` are, for the first sentence pairs, the share of each source word, `</s>` last, in its target
    word's scores, in hundredths: unsigned bytes `[scores, C, J, I+1]`; empty for a pair without scores.
    """

    name: str
    position: Position
    scores: Sequence[Score]
    cells: Sequence[Cell]
    shown: Cell  # the cell to show first
    shares: Sequence[bytes]


def make_page(
    text: Sequence[Pair],
    systems: Sequence[System],
    gold: Sequence[Gold] | None = None,
    attention: Attention | None = None,
    signature: str = "",
) -> str:
    """Return the page of a text and its links.

    Raises:
        ValueError: systems or gold have another number of sentence pairs.
    """
    lengths = [len(system.links) for system in systems] + ([] if gold is None else [len(gold)])
    if any(length != len(text) for length in lengths):
        raise ValueError(f"links of another number of sentence pairs than the {len(text):,} of the text")
    # The data of the page's scripts: numbers, strings, lists and dictionaries.
    counts = [count_all(system.links, gold) for system in systems] if gold is not None else []
    pairs = []
    for n, pair in enumerate(text):
        record: dict[str, Any] = {"number": n + 1, "source": [*pair.source], "target": [*pair.target], "systems": []}
        for system in systems:
            row: dict[str, Any] = {"links": _listed(system.links[n])}
            if scores := system.scores[n] if n < len(system.scores) else {}:
                of_links = map(scores.get, sorted(system.links[n]))
                row["scores"] = [None if score is None else round(score, 4) for score in of_links]
            if maybe := _listed(system.maybe[n]) if n < len(system.maybe) else []:
                row["maybe"] = maybe
            record["systems"].append(row)
        for row, of_system in zip(record["systems"], counts, strict=False):
            row |= _errors(of_system[n])
        if gold is not None:
            record["gold"] = {"sure": _listed(gold[n].sure), "possible": _listed(gold[n].possible - gold[n].sure)}
        of_systems = [system.links[n] for system in systems]
        record["differing"] = len(frozenset.union(*of_systems) - frozenset.intersection(*of_systems))
        if attention and n < len(attention.shares) and attention.shares[n]:
            record["shares"] = base64.b64encode(zlib.compress(attention.shares[n], 9)).decode()
        pairs.append(record)
    overview = [{"name": system.name, "links": sum(map(len, system.links))} for system in systems]
    for row, of_system in zip(overview, counts, strict=False):
        row |= _errors(of_system.sum(0))
    model = attention and {
        "name": attention.name,
        "position": attention.position,
        "scores": [*attention.scores],
        "cells": [[cell.layer, cell.head] for cell in attention.cells],
        "shown": [attention.shown.layer, attention.shown.head],
    }
    data = {"pairs": pairs, "systems": overview, "gold": gold is not None, "model": model, "signature": signature}

    styles = [_read("page.css")]
    scripts = [_read(name) for name in SCRIPTS]
    policy = f"default-src 'none'; style-src {_hashes(styles)}; script-src {_hashes(scripts)}; "
    parts = {
        "policy": f"{policy}base-uri 'none'; form-action 'none'",
        "styles": "\n".join(f"<style>{style}</style>" for style in styles),
        "scripts": "\n".join(f"<script>{script}</script>" for script in scripts),
        "data": to_json(data).replace("<", r"\u003c"),
    }
    before, *rest = _read("page.html").split("{{")
    return before + "".join(parts[name] + after for name, after in (part.split("}}", 1) for part in rest))


def _read(name: str) -> str:
    return (files("align.view") / "offline" / name).read_text(encoding="utf-8")


def _hashes(parts: Sequence[str]) -> str:
    """Return the sources of the policy that permit these scripts or styles: the hash of each."""
    digests = (base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in parts)
    return " ".join(f"'sha256-{digest}'" for digest in digests)


def _listed(links: Links) -> list[list[int]]:
    return [[i, j] for i, j in sorted(links)]


def _errors(counts: Counts) -> dict[str, Any]:
    """Return wrong and missing links, and the AER in percent, from |A∩S|, |A∩P|, |A|, |S| `[4]`."""
    in_sure, in_possible, links, sure = map(int, counts)
    rate = float(aer(counts))
    return {
        "wrong": links - in_possible,
        "missing": sure - in_sure,
        "aer": round(100 * rate, 2) if np.isfinite(rate) else None,
    }
