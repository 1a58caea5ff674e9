"""Find what `msgfmt --check` refuses in a message of gettext: line ends, arguments of format strings, plural forms.

The rules are those of gettext's manual (section c-format and the sections of other languages' format strings) and of
its programs, which the tests run where they are installed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from gettext import c2py

STAR = r"\*(?:[0-9]{1,9}\$)?"
SIZE = r"(?:hh?|ll?|wf?(?:8|16|32|64)|[LqjzZt])"
INTEGER = r"<PRI(?P<integer>[diuoxX])(?P<bits>(?:LEAST|FAST)?(?:8|16|32|64)|MAX|PTR)>"
"""Parts of a directive of printf: a width or a precision that is an argument, a size, and a macro of inttypes.h."""

_C_DIRECTIVE = re.compile(
    rf"""%(?:(?P<number>[0-9]{{1,9}})\$)?[-+ #0'I]*
    (?P<width>{STAR}|(?:[1-9][0-9]*)?)(?:\.(?P<precision>{STAR}|[0-9]*))?
    (?:(?P<size>{SIZE})?(?P<type>[%mcCsSdiuoxXbeEfFgGaApn@])|{INTEGER})""",
    re.VERBOSE,
)
_C_TYPES = {**dict.fromkeys("iuoxXb", "u"), "i": "d", **dict.fromkeys("eEfFgGaA", "f"), "C": "lc", "S": "ls"}
_C_SIZES = {"L": "ll", "q": "ll", "Z": "z", "MAX": "j"}

_PYTHON_DIRECTIVE = re.compile(
    r"%(?:\((?P<name>(?:[^()]|\([^()]*\))*)\))?[-+ #0]*"
    r"(?P<width>\*|(?:[1-9][0-9]*)?)(?:\.(?P<precision>\*|[0-9]*))?[hlL]?(?P<type>[%csrdiuoxXeEfgG])"
)
_PYTHON_TYPES = {**dict.fromkeys("iuoxX", "d"), **dict.fromkeys("eEgG", "f"), "r": "s"}

_BRACE_FIELD = re.compile(
    r"""\{\{|\{(?P<name>(?:[A-Za-z_]\w*|[0-9]+)(?:\.[A-Za-z_]\w*|\[\w+\])*)?
    (?P<form>(?:![rsa])?(?::(?:[^{}]|\{[^{}]*\})*)?)\}""",
    re.VERBOSE | re.ASCII,
)

_ANY = ""
"""Type of an argument of Python's that is shown in no characters, as with `%.0s`, and may be of any type."""

_SPACE_FLAG = re.compile(r"%[-+#0']* ")  # begin of a directive with a space, which is as often a percent sign

_NPLURALS = re.compile(r"nplurals=\s*([0-9]{1,2})(?![0-9])")
_PLURAL = re.compile(r"(?<!n)plural=([^;\n]*)")

MANY = 5  # count of numbers up to 1000 from which a plural form needs all arguments

Arguments = dict[int | str, str]  # types of arguments by their position, from 1, or by their name


def _directives(text: str, mark: str, pattern: re.Pattern[str]) -> list[re.Match[str]] | None:
    """Return the directives of a text, which begin with a mark; None if one is not valid."""
    directives, at = list[re.Match[str]](), 0
    while (at := text.find(mark, at)) >= 0:
        if not (directive := pattern.match(text, at)):
            return None
        directives.append(directive)
        at = directive.end()
    return directives


def c_arguments(text: str) -> Arguments | None:
    """Return the arguments of a format string of C or Objective-C; None if it is not valid."""
    if (directives := _directives(text, "%", _C_DIRECTIVE)) is None:
        return None
    found: list[tuple[str, str]] = []  # number of the argument, "" for the next one, and type
    for directive in directives:
        stars = directive["width"], directive["precision"] or ""
        found += [(star[1:-1], "d") for star in stars if star[:1] == "*"]
        size = directive["bits"] or directive["size"] or ""
        kind = directive["type"] or directive["integer"]
        size, kind = _C_SIZES.get(size, size), _C_TYPES.get(kind, kind)
        if kind == "p" or (kind == "f" and size == "l"):
            size = ""
        if kind not in ("%", "m"):
            found.append((directive["number"] or "", size + kind))
    if not any(number for number, _ in found):
        return {n: kind for n, (_, kind) in enumerate(found, 1)}
    arguments: Arguments = {int(number or 0): kind for number, kind in found}
    is_valid = all(arguments[int(number or 0)] == kind for number, kind in found)
    return arguments if is_valid and arguments.keys() == {*range(1, 1 + len(arguments))} else None


def python_arguments(text: str) -> Arguments | None:
    """Return the arguments of a format string of Python's operator `%`; None if it is not valid."""
    if (directives := _directives(text, "%", _PYTHON_DIRECTIVE)) is None:
        return None
    named: Arguments = {}
    others: list[str] = []
    for directive in directives:
        name, precision = directive["name"], directive["precision"] or ""
        others += ["d"] * [directive["width"], precision].count("*")
        kind = _PYTHON_TYPES.get(directive["type"], directive["type"])
        if kind == "s" and precision and not precision.strip("0"):
            kind = _ANY
        if name is not None:
            both = {kind, named.get(name, kind)} - {_ANY}
            if len(both) > 1:
                return None
            named[name] = next(iter(both), _ANY)
        elif kind != "%":
            others.append(kind)
    if named and others:
        return None
    return named or dict(enumerate(others, 1))


def brace_arguments(text: str) -> Arguments | None:
    """Return the arguments of a format string of Python's method `format`; None if it is not valid.

    They have no types. As to gettext 0.21, `{a}` and `{a:>5}` are two arguments.
    """
    if (fields := _directives(text, "{", _BRACE_FIELD)) is None:
        return None
    names: list[str] = []
    positions = 0
    for field in fields:
        if field[0] != "{{":
            names.append((field["name"] or str(positions)) + field["form"])
            positions += not field["name"]
    if positions and sum(name[0].isdecimal() for name in names) > positions:
        return None
    return dict.fromkeys(names, "")


_ARGUMENTS: dict[str, Callable[[str], Arguments | None]] = {
    "C": c_arguments,
    "Python": python_arguments,
    "Python brace": brace_arguments,
}
_FORMATS = {"c-format": "C", "objc-format": "C", "python-format": "Python", "python-brace-format": "Python brace"}
"""Kinds of format strings by the flags of messages."""

_DIRECTIVE = re.compile(r"%[-+ #0-9.*$|]*L?[A-Za-z@]?%?|\{[^{}]*\}|\$\{?\w+\}?|~\w")
"""What may be a placeholder in a format that is not read here."""


def frequent_forms(header: str) -> tuple[bool, ...]:
    """Tell for each plural form whether it is for many numbers; empty without a valid rule.

    Args:
        header: the translation of the empty message, whose `Plural-Forms` has the rule.
    """
    number, rule = _NPLURALS.search(header), _PLURAL.search(header)
    forms = range(int(number[1]) if number else 0)
    try:
        counts = Counter(map(c2py(rule[1].strip() if rule else ""), range(1001)))
    except (ValueError, ArithmeticError):
        return ()
    return tuple(counts[n] >= MANY for n in forms) if counts.keys() <= {*forms} else ()


def message_errors(
    msgid: str, plural: str | None, forms: Sequence[str], flags: Collection[str], frequent: Sequence[bool] = ()
) -> list[str]:
    """Return why `msgfmt --check` refuses a message; nothing if it accepts it, as it does without a translation.

    A message without a flag for formats is none of C or Python if a text of it is no valid format string, or has a
    directive with a space, as `50% discount` has.

    Args:
        plural: its plural, which has all arguments; None for a message without one.
        frequent: see `frequent_forms`. Other forms may lack arguments if there are several.
    """
    if not any(forms[:1]):
        return []
    source = msgid if plural is None else plural
    texts = [msgid, source, *forms]
    errors = ["the message would lack a plural form"] if not all(forms) else []
    for verb, has_line_end in (("begin", str.startswith), ("end", str.endswith)):
        if len({has_line_end(text, "\n") for text in texts}) > 1:
            errors.append(rf"the message would {verb} with \n on one side only")
    is_known = any(flag.endswith("-format") for flag in flags)
    kinds = {_FORMATS[flag] for name in flags if (flag := name.removeprefix("possible-")) in _FORMATS}
    if not kinds and any(flag.endswith("-format") and not flag.startswith("no-") for flag in flags):  # Boost's, Qt's, …
        directives = [Counter(_DIRECTIVE.findall(text)) for text in (source, *forms)]
        if any(of_form != directives[0] for of_form in directives[1:]):
            errors.append("the message would have other placeholders than its source")
    if not is_known:
        kinds = {"Python brace"} if any(map(_SPACE_FLAG.search, texts)) else {*_ARGUMENTS}
    for kind in sorted(kinds):
        ours, *theirs = map(_ARGUMENTS[kind], (source, *forms))
        if ours is None or (not is_known and None in theirs):
            continue
        if None in theirs:
            errors.append(f"the message would not be a valid {kind} format string")
        for n, arguments in enumerate(theirs):
            if arguments is None:
                continue
            is_strict = plural is None or len(forms) == 1 or any(frequent[n : n + 1])
            is_tuple = kind == "Python" and is_known and any(isinstance(key, int) for key in (*ours, *arguments))
            extra, lacking = arguments.keys() - ours.keys(), ours.keys() - arguments.keys()
            types = ({ours[key], arguments[key]} for key in ours.keys() & arguments.keys())
            is_other = any(len(both) > 1 and (is_strict or _ANY not in both) for both in types)
            if extra or is_other:
                errors.append("the message would have other arguments than its source")
            if lacking and (is_strict or is_tuple):
                errors.append("the message would lack an argument of its source")
    return list(dict.fromkeys(errors))
