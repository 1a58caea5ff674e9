"""What a number or a file of links depends on, as one short line to publish beside it, and as a dict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from align._version import __version__
from align.core.settings import Settings
from align.core.types import Cell, Choice, Place

MERGE = "sum/mean"
"""How scores of pieces become scores of words: summed over a source word's, the mean over a target word's."""


def describe(
    name: str,
    settings: Settings,
    choice: Choice | None,
    dtype: str,
    more: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Everything that the links depend on, by name.

    Args:
        name: the recorder's, with its fingerprint.
        settings: as they were asked for.
        choice: what "auto" came to; None as long as that is open.
        dtype: of the model's arithmetic.
        more: what was done beyond this.
    """
    layer, head, output = _place(settings, choice)
    parts = {
        "model": name,
        "score": settings.score,
        "layer": layer,
        "head": head,
        "position": settings.position,
        **{f"output-{key}": value for key, value in output.items()},
        "merge": MERGE,
        "null": settings.null,
        **({} if settings.threshold is None else {"threshold": f"{settings.threshold:g}"}),
        **(more or {}),
        "dtype": dtype,
    }
    return parts


def describe_reverse(name: str, settings: Settings, choice: Choice | None, method: str) -> dict[str, str]:
    """What `describe` takes as `more` where a second model aligns the other way round.

    Args:
        name: the reverse model's recorder's.
        settings: as they were asked for.
        choice: what "auto" came to in the reverse direction; None as long as that is open.
        method: how the two directions are symmetrised, with the threshold if it is soft.
    """
    layer, head, output = _place(settings, choice)
    place = {"reverse-layer": layer, "reverse-head": head}
    place |= {f"reverse-output-{key}": value for key, value in output.items()}
    return {"reverse": name, **place, "symmetrize": method}


def _place(settings: Settings, choice: Choice | None) -> tuple[str, str, dict[str, str]]:
    """Layer and head, as asked for and as chosen; those of the output position too where both are read."""
    if choice is None:
        asked = {"layer": str(settings.output_layer), "head": str(settings.output_head)}
        return str(settings.layer), str(settings.head), asked if settings.position == "both" else {}
    cell, *output = choice.place.cells().values()
    beside = {}
    for other in output:
        beside["layer"] = _asked_and_chosen(settings.output_layer, other.layer)
        beside["head"] = _asked_and_chosen(settings.output_head, other.head)
    return _asked_and_chosen(settings.layer, cell.layer), _asked_and_chosen(settings.head, cell.head), beside


def _asked_and_chosen(asked: int | str, chosen: int | str) -> str:
    return f"auto({chosen})" if asked == "auto" else str(asked)


BARE = frozenset({"method", "merge", "model", "name", "position", "score", "symmetrize", "tool"})
"""Parts that are shown without their key: nobody takes them for anything else."""

UNSAID = {"dtype": "float32"}
"""Parts that go without saying."""

Parts = Mapping[str, str | int | Sequence[str] | None]


def signature(parts: Parts, word: str = "align", after: Parts | None = None) -> str:
    """One line, such as `align|fairseq:de-en@1f3c9a2|norm|layer:auto(1)|head:3|input|sum/mean|null:eos|v:0.2.0`.

    Args:
        parts: in order: `key:value`, or the value alone where the key is in BARE; of several values each stands by
            itself, and None is left out.
        word: what the line begins with, by which it is known what sort of number it stands beside.
        after: more of them, which stand behind this package's version.
    """
    shown = [word]
    for key, value in {**parts, "v": __version__, **(after or {})}.items():
        if value is not None and UNSAID.get(key) != value:
            values = (value,) if isinstance(value, (str, int)) else value
            shown += [str(one) if key in BARE else f"{key}:{one}" for one in values]
    return "|".join(shown)


def read_choice(record: Any) -> Choice:
    """A choice as it was written to JSON by way of `dataclasses.asdict`.

    Raises:
        ValueError, TypeError, KeyError: the record is not one.
    """

    def read_cell(cell: Any) -> Cell | None:
        if cell is None:
            return None
        if type(cell["layer"]) is not int or not (cell["head"] == "all" or type(cell["head"]) is int):
            raise ValueError("neither a layer nor a head")
        return Cell(cell["layer"], cell["head"])

    place = Place(read_cell(record["place"]["input"]), read_cell(record["place"]["output"]))
    consistency = record["consistency"]
    return Choice(place, str(record["reason"]), None if consistency is None else float(consistency))
