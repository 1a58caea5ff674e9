"""What was run, as one short line to publish beside a number, and as a dict."""

from __future__ import annotations

from align.types import Cell, Settings


def describe(name: str, settings: Settings, cell: Cell | None, version: str, dtype: str) -> dict[str, str]:
    """Everything that the links depend on, by name.

    Args:
        name: the recorder's, with its fingerprint.
        settings: as they were asked for.
        cell: what "auto" came to; None as long as that is open.
        version: of this package.
        dtype: of the model's arithmetic; float32 goes without saying.
    """
    head = (cell.head or "all") if cell else None
    parts = {
        "model": name,
        "score": settings.score,
        "layer": _choice(settings.layer, cell.layer if cell else None),
        "head": _choice(settings.head, head),
        "position": settings.position,
        "merge": "sum/mean",
        "null": settings.null,
        "dtype": dtype,
        "version": version,
    }
    return {key: value for key, value in parts.items() if (key, value) != ("dtype", "float32")}


def _choice(asked: int | str, taken: int | str | None) -> str:
    return f"auto({taken})" if asked == "auto" and taken is not None else str(asked)


SHOWN_AS = {
    "case": "case:",
    "trained": "trained:",
    "layer": "layer:",
    "head": "head:",
    "null": "null:",
    "dtype": "dtype:",
    "version": "v:",
}


def signature(parts: dict[str, str]) -> str:
    """One line, such as `align|fairseq:de-en@1f3c9a2|norm|layer:auto(1)|head:3|input|sum/mean|null:eos|v:0.1.0`."""
    return "|".join(["align", *(SHOWN_AS.get(key, "") + value for key, value in parts.items())])
