"""Compare language codes of different systems: `de`, `deu_Latn`, `de_DE`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache

from align.core.errors import ModelError, show_value

GROUPS = frozenset({
    "aav", "afa", "alv", "art", "bat", "bnt", "cau", "cel", "cpf", "cpp", "dra", "euq", "fiu", "gem", "gmq",
    "gmw", "iir", "inc", "ine", "itc", "mkh", "mul", "nic", "phi", "poz", "pqe", "pqw", "roa", "sal", "sem",
    "sla", "sit", "trk", "tut", "urj", "zle", "zls", "zlw",
})  # fmt: skip
"""Codes of language families (ISO 639-5) that name a side of OPUS-MT's models."""


_CODE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8}){0,4}")


def named_language(name: str) -> str:
    """Return the code by which a document names its language, without encoding and modifier.

    It is "" for text that is not a code, such as `German`, or stands for no certain language, such as `und`.
    """
    code = re.split("[.@]", name.strip())[0]
    return code if _CODE.fullmatch(code) and code[:3].lower() not in ("mis", "mul", "und", "zxx") else ""


def is_group(code: str) -> bool:
    """Tell whether a code stands for several languages, as `roa` and `ROMANCE` do in OPUS-MT's models."""
    return code in GROUPS or (len(code) > 3 and code.isupper())


@lru_cache(maxsize=4096)
def base_language(code: str) -> str:
    """Return the shortest code of a language, without script and region, such as `de` for `deu_Latn` and `de_DE`.

    A language that belongs to a macrolanguage is replaced by it, for example NLLB's `arb_Arab` by `ar`, as in M2M100.
    Text that is not a language code is returned unchanged.
    """
    from langcodes import Language

    with suppress(ValueError):
        code = Language.get(code).prefer_macrolanguage().language or code
    # codes of published models that are in no standard, and members of a macrolanguage that langcodes keeps apart
    return {"pob": "pt", "ns": "nso", "nb": "no", "pbt": "ps", "fuv": "ff"}.get(code, code)


def same_language(one: str, other: str) -> bool:
    """Tell whether two codes name the same language, ignoring scripts and regions."""
    return one == other or base_language(one) == base_language(other)


def find_language(code: str, codes: Iterable[str]) -> str | None:
    """Return the only one of `codes` that names the language of `code`; None if there is none or several."""
    listed = list(codes)
    if code in listed:
        return code
    matches = [candidate for candidate in listed if same_language(code, candidate)]
    return matches[0] if len(matches) == 1 else None


LANGUAGE_CODE = re.compile(r"(?!\.+$)[\w.-]{1,100}")  # a language code, which becomes part of file names


def check_language(code: object, file: str = "") -> str:
    """Return a language code, which consists of letters, digits, `_`, `.` and `-`."""
    if isinstance(code, str) and LANGUAGE_CODE.fullmatch(code):
        return code
    raise ModelError(f"{show_value(code)} is not a language code such as 'de'", file=file)
