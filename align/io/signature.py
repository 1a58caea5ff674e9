"""Describe what a score or a file of links depends on, as one short line to publish with it and as a dict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from align._version import __version__
from align.core.backend import StateRecorder
from align.core.symmetrize import SOFT
from align.core.types import FLOOR, Cell, Choice, Place, Search, Settings

if TYPE_CHECKING:
    from align.core.aligner import Aligner

MERGE = "sum/mean"
"""How scores of pieces are merged into scores of words: summed over a source word, averaged over a target word."""


def describe(
    name: str,
    settings: Settings,
    choice: Choice | None,
    dtype: str,
    more: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return everything that the links depend on, by name.

    Args:
        settings: as the user set them.
        choice: the values of "auto"; None if they are not chosen yet.
        more: further settings; those of a reverse model begin with `reverse-`.
    """
    where, position = _where(settings, choice)
    parts = {
        "model": name,
        "score": settings.score,
        "layer": where.pop("layer"),
        "head": where.pop("head"),
        "position": position,
        **where,
        "merge": MERGE,
        "null": settings.null,
        **({} if settings.threshold is None else {"threshold": f"{settings.threshold:g}"}),
        **(more or {}),
        "dtype": dtype,
    }
    for key in ("position", "null"):
        if parts.get(f"reverse-{key}") == parts[key]:
            del parts[f"reverse-{key}"]
    return parts


def _where(settings: Settings, choice: Choice | None) -> tuple[dict[str, str], str]:
    """Return the layers and heads that are read, as set and as chosen, by name; and the position or positions."""
    cells = choice.place.cells() if choice else {}
    where = {}
    for n, prefix in enumerate(("", "output-")[: len(cells) or 1 + (settings.position == "both")]):
        for key in ("layer", "head"):
            where[prefix + key] = value = str(getattr(settings, f"{prefix}{key}".replace("-", "_")))
            if cells and value == "auto":
                where[prefix + key] = f"auto({getattr([*cells.values()][n], key)})"
    position = settings.position
    return where, f"auto({'+'.join(cells)})" if cells and position == "auto" else position


BARE = frozenset({"method", "merge", "model", "name", "position", "score", "symmetrize", "tool"})
"""Keys omitted from the signature, because their values are unambiguous."""

Parts = Mapping[str, str | int | Sequence[str] | None]


def signature(parts: Parts, word: str = "align", after: Parts | None = None) -> str:
    """Return one line, e.g. `align|fairseq:de-en@1f3c9a2|norm|layer:auto(1)|head:3|input|sum/mean|null:eos|v:0.2.0`.

    Args:
        parts: in order: each is written as `key:value`, or as the value alone if the key is in BARE; several values are
            written one after the other, and None is omitted.
        word: first word of the line, which names the kind of result.
        after: parts that follow this package's version.
    """
    fields = [word]
    for key, value in {**parts, "v": __version__, **(after or {})}.items():
        if value is not None and (key, value) != ("dtype", "float32"):
            values = (value,) if isinstance(value, (str, int)) else value
            fields += [str(item) if key in BARE else f"{key}:{item}" for item in values]
    return "|".join(fields)


def sign(
    aligner: Aligner,
    choices: Sequence[Choice] = (),
    search: Search | None = None,
    words: str = "spaces",
    after: Parts | None = None,
) -> str:
    """Return the signature of an aligner's links, with the result of "auto" in each direction once it is known.

    Args:
        after: parts that follow this package's version.
    """
    known: Sequence[Choice | None] = choices or [None] * len(aligner.directions)
    recorder, reverse, partner = aligner.forward.recorder, aligner.reverse, aligner.partner
    if search and recorder.prompted:
        search = replace(search, beam=1)
    more = {"translate": str(search)} if search else {}
    if words != "spaces":
        more["words"] = words
    method, settings = aligner.method, aligner.forward.settings
    if reverse and method == SOFT:
        threshold = FLOOR if partner else aligner.threshold
        method, settings = f"{SOFT}:{threshold:g}", replace(settings, threshold=None)
    if scorers := scorers_of(aligner):
        more["scorer"] = "+".join(scorers)
    if reverse:
        where, position = _where(reverse.settings, known[1])
        read = {**where, "position": position, "null": reverse.settings.null}
        more |= {"reverse": reverse.recorder.name} | {f"reverse-{key}": value for key, value in read.items()}
        more["symmetrize"] = method
    if partner:
        layer = _where(partner.settings, known[-1])[0]["layer"]
        others = (given := after or {}).get("ensemble", ())
        dtype = "" if partner.recorder.dtype == recorder.dtype else f"/{partner.recorder.dtype}"
        names = [f"{partner.recorder.name}/{layer}{dtype}", *(others if isinstance(others, Sequence) else ())]
        after = {**given, "ensemble": names, "mean": given.get("mean", f"{aligner.threshold:g}")}
    parts = describe(recorder.name, settings, known[0], recorder.dtype, more)
    if isinstance(recorder, StateRecorder):
        parts = {key: value for key, value in parts.items() if key not in ("score", "head", "position", "null")}
        parts["merge"] = "mean"
    return signature(parts, after=after)


def scorers_of(aligner: Aligner) -> list[str]:
    """Return the digests of the link scorers that give links their scores."""
    joined = aligner.reverse is not None and aligner.method == SOFT
    used = tuple(filter(None, (aligner.forward, None if joined else aligner.reverse)))
    return [
        str(getattr(direction.scorer, "digest", "custom"))
        for direction in used
        if direction.scorer and (joined or direction.settings.threshold is not None)
    ]


def read_choice(record: Any) -> Choice:
    """Read a choice that was written to JSON with `dataclasses.asdict`."""
    cells = {position: cell and Cell(**cell) for position, cell in record["place"].items()}
    return Choice(Place(**cells), record["reason"], record["consistency"])
