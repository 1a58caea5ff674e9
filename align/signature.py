"""What was run, as one short line to publish beside a number, and as a dict."""

from __future__ import annotations

from collections.abc import Mapping

from align.types import Cell, Settings


def describe(
    name: str, settings: Settings, cell: Cell | None, version: str, dtype: str, more: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Everything that the links depend on, by name.

    Args:
        name: the recorder's, with its fingerprint.
        settings: as they were asked for.
        cell: what "auto" came to; None as long as that is open.
        version: of this package.
        dtype: of the model's arithmetic; float32 goes without saying.
        more: what was done beyond this.
    """
    layer, head = _place(settings, cell)
    parts = {
        "model": name,
        "score": settings.score,
        "layer": layer,
        "head": head,
        "position": settings.position,
        **_output_place("output", cell),
        "merge": "sum/mean",
        "null": settings.null,
        **({} if settings.threshold is None else {"threshold": f"{settings.threshold:g}"}),
        **(more or {}),
        "dtype": dtype,
        "version": version,
    }
    return {key: value for key, value in parts.items() if (key, value) != ("dtype", "float32")}


def describe_reverse(name: str, settings: Settings, cell: Cell | None, method: str) -> dict[str, str]:
    """What `describe` takes as `more` where a second model aligns the other way round, and `method` joins them."""
    layer, head = _place(settings, cell)
    place = {"reverse-layer": layer, "reverse-head": head, **_output_place("reverse-output", cell)}
    return {"reverse": name, **place, "symmetrize": method}


def _place(settings: Settings, cell: Cell | None) -> tuple[str, str]:
    """Layer and head, as asked for and as taken."""
    head = (cell.head or "all") if cell else None
    return _choice(settings.layer, cell.layer if cell else None), _choice(settings.head, head)


def _output_place(name: str, cell: Cell | None) -> dict[str, str]:
    """Layer and head of the output position, where it is read beside the input position."""
    output = cell.output if cell else None
    if not output:
        return {}
    return {f"{name}-layer": f"auto({output.layer})", f"{name}-head": f"auto({output.head or 'all'})"}


def _choice(asked: int | str, taken: int | str | None) -> str:
    return f"auto({taken})" if asked == "auto" and taken is not None else str(asked)


SHOWN_AS = {
    "case": "case:",
    "trained": "trained:",
    "layer": "layer:",
    "head": "head:",
    "null": "null:",
    "threshold": "threshold:",
    "translate": "translate:",
    "reverse": "reverse:",
    "reverse-layer": "reverse-layer:",
    "reverse-head": "reverse-head:",
    "output-layer": "output-layer:",
    "output-head": "output-head:",
    "reverse-output-layer": "reverse-output-layer:",
    "reverse-output-head": "reverse-output-head:",
    "dtype": "dtype:",
    "version": "v:",
}


def signature(parts: dict[str, str]) -> str:
    """One line, such as `align|fairseq:de-en@1f3c9a2|norm|layer:auto(1)|head:3|input|sum/mean|null:eos|v:0.1.0`."""
    return "|".join(["align", *(SHOWN_AS.get(key, "") + value for key, value in parts.items())])
