"""What `msgfmt --check` refuses, beside msgfmt itself where it is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from itertools import permutations, product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from polib import escape

from align.transfer.format_strings import (
    Arguments,
    brace_arguments,
    c_arguments,
    frequent_forms,
    message_errors,
    python_arguments,
)

needs_msgfmt = pytest.mark.skipif(not shutil.which("msgfmt"), reason="needs msgfmt, of the system's package gettext")


def refused_by_msgfmt(catalog: Path) -> dict[int, str]:
    """What msgfmt says of each message that it refuses, by its number; the header has the number 0."""
    lines = catalog.read_text(encoding="utf-8").split("\n")
    begins = [n for n, line in enumerate(lines, 1) if line.startswith("msgid ")]
    command = ["msgfmt", "--check", "-o", "/dev/null", str(catalog)]
    result = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"LC_ALL": "C"})
    errors = re.findall(r"^[^:]*:([0-9]+):(?:[0-9]+:)? (?!warning)(.*)", result.stderr, re.MULTILINE)
    assert bool(errors) == (result.returncode != 0), result.stderr
    return {bisect_right(begins, int(line)) - 1: error for line, error in errors}


C_TEXTS = """a|%d|%i|%s|%u %x|%x %u|%ld|%lld|%Ld %qd|%f|%Lf|%c|%C|%lc|%S|%ls|%p|%n|%hn|%hhd|%hd|%zu
%Zu|%jd|%td|%*d|%d %d|%.*s|%d %s|%s %d|%1$s %2$d|%2$d %1$s|%2$s|%1$s %1$s|%1$s %1$d|%1$s %s|%0$s|%1$*2$d
%2$*1$d|%*1$d|%%|%5%|%m|%1$s %m|%|100% |% d|50% off|%+#0 -'5.3d|%y|%<PRId64>|%<PRIu64>|%<PRIdLEAST8>|%<PRIiMAX>
%<PRIx32> %d|%<PRI>|%<PRId64|%.f|%05.s|%1$<PRId64>|%*%|% * s|%1$d %3$d %2$s|%-*.*f|%1$d %2$s %3$d"""
PYTHON_TEXTS = """a|%d|%i|%s|%r|%x %u|%ld|%Lf|%f|%g|%c|%*d|%d %d|%.*s|%d %s|%(a)s|%(a)r|%(a)d|%(a)s %(b)d
%(b)d %(a)s|%(a)s %(a)s|%(a)s %(a)d|%(a)s %s|%(a)s %%|%%|%5%|%|%(a|%(a(b))s|%.0s|%(a).0s|%(a).0s %(a)d
%(a)d %(a).0s|%(a).00s|%(a).0d|%y|% d|%(a)|%()s|%(a)%|%(a)*d|%(a)c|%(a)f"""
BRACE_TEXTS = """a|{0}|{1}|{0} {1}|{1} {0}|{a}|{a} {b}|{b}{a}|{a.x}|{a[0]}|{a[x].y}|{a:>10}|{0:.2f}|{{a}}
{{{a}}}|{|{a|{a b}|{ a}|{a.}|{a[}|{0} {0}|{0}{a}|{{|{a:x>5d}"""
HEADER = r"Content-Type: text/plain; charset=UTF-8\nPlural-Forms: nplurals=2; plural=n != 1;\n"


@needs_msgfmt
@pytest.mark.parametrize(
    ("flag", "texts"), [("c-format", C_TEXTS), ("python-format", PYTHON_TEXTS), ("python-brace-format", BRACE_TEXTS)]
)
def test_every_pair_of_texts_beside_msgfmt(tmp_path: Path, flag: str, texts: str) -> None:
    """Each text as a translation of each, and as the only right one of two plural forms."""
    pairs = [*product(re.split(r"[|\n]", texts), repeat=2)]
    messages: list[tuple[str, str | None, Sequence[str]]] = [(source, None, [target]) for source, target in pairs]
    messages += [("x", source, forms) for source, target in pairs for forms in permutations((source, target))]
    rows = [f'msgid ""\nmsgstr "{HEADER}"\n']
    for n, (msgid, plural, forms) in enumerate(messages):
        keys = ["msgstr"] if plural is None else ["msgstr[0]", "msgstr[1]"]
        rest = "" if plural is None else f'msgid_plural "{escape(plural)}"\n'
        rest += "".join(f'{key} "{escape(form)}"\n' for key, form in zip(keys, forms, strict=True))
        rows.append(f'#, {flag}\nmsgctxt "{n}"\nmsgid "{escape(msgid)}"\n{rest}')
    (tmp_path / "a.po").write_text("".join(rows), encoding="utf-8")
    refused = refused_by_msgfmt(tmp_path / "a.po")
    assert len(refused) > len(messages) / 3
    for n, (msgid, plural, forms) in enumerate(messages, 1):
        errors = message_errors(msgid, plural, forms, [flag], frequent_forms(HEADER))
        if n in refused or flag != "python-brace-format":
            assert bool(errors) == (n in refused), (msgid, plural, forms, errors, refused.get(n))
        elif plural is None and ":" not in f"{msgid}{forms[0]}":  # of which versions of gettext say different things
            assert not errors, (msgid, forms)


@needs_msgfmt
@pytest.mark.parametrize(
    "rule",
    [
        "nplurals=1; plural=0;",
        "nplurals=2; plural=(n > 1);",
        "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);",
        "nplurals=3; plural=(n==1) ? 0 : (n>=2 && n<=4) ? 1 : 2;",
        "nplurals=6; plural=n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5;",
    ],
)
def test_forms_that_need_the_number_beside_msgfmt(tmp_path: Path, rule: str) -> None:
    header = HEADER.replace("nplurals=2; plural=n != 1;", rule)
    frequent = frequent_forms(header)
    assert 0 < sum(frequent) <= len(frequent)
    messages = [[("" if k == n else "%d ") + "b" for k in range(len(frequent))] for n in range(len(frequent))]
    rows = [f'msgid ""\nmsgstr "{header}"\n']
    for n, forms in enumerate(messages):
        texts = "".join(f'msgstr[{k}] "{form}"\n' for k, form in enumerate(forms))
        rows.append(f'#, c-format\nmsgid "%d {n}"\nmsgid_plural "%d {n}s"\n{texts}')
    (tmp_path / "a.po").write_text("".join(rows), encoding="utf-8")
    refused = refused_by_msgfmt(tmp_path / "a.po")
    assert [n + 1 in refused for n in range(len(messages))] == list(frequent)
    assert [bool(message_errors("%d", "%d", forms, ["c-format"], frequent)) for forms in messages] == list(frequent)


@pytest.mark.parametrize(
    ("arguments_of", "text", "arguments"),
    [
        (c_arguments, "%*.*f %%", {1: "d", 2: "d", 3: "f"}),
        (c_arguments, "%<PRId64> %<PRIuMAX> %2$ju", None),
        (c_arguments, "%2$s: %1$ld", {1: "ld", 2: "s"}),
        (python_arguments, "%(name)s %(n)d %(name)r", {"name": "s", "n": "d"}),
        (python_arguments, "%(name)s %s", None),
        (brace_arguments, "{} {name!r:>10} {}", {"0": "", "name!r:>10": "", "1": ""}),
        (brace_arguments, "{n, plural, one {a} other {b}}", None),
    ],
)
def test_arguments(arguments_of: Callable[[str], Arguments | None], text: str, arguments: Arguments | None) -> None:
    assert arguments_of(text) == arguments


BEGIN, END = (rf"the message would {verb} with \n on one side only" for verb in ("begin", "end"))
OTHER, LACKING = (
    "the message would have other arguments than its source",
    "the message would lack an argument of its source",
)


@pytest.mark.parametrize(
    ("msgid", "plural", "forms", "flags", "errors"),
    [
        ("a\n", None, ["b"], [], [END]),
        ("\na", None, ["b\n"], [], [BEGIN, END]),
        ("%d a\n", "%d as\n", ["ein b\n", "%d b"], ["c-format"], [END]),
        ("%d a", "%d as", ["ein b", ""], ["c-format"], ["the message would lack a plural form", LACKING]),
        ("%d a\n", "%d as\n", ["", ""], ["c-format"], []),
        ("%s %d", None, ["%d %s"], ["c-format"], [OTHER]),
        ("%s", None, ["%"], ["c-format"], ["the message would not be a valid C format string"]),
        ("%s", None, ["% * s"], ["possible-c-format"], ["the message would not be a valid C format string"]),
        ("%@", None, ["b"], ["objc-format"], [LACKING]),
        ("%s", None, ["b"], ["no-c-format"], []),
        ("%s", None, ["b"], ["java-printf-format"], ["the message would have other placeholders than its source"]),
        ("%s {a}", None, ["b"], ["python-format", "python-brace-format"], [LACKING]),
        ("%s", None, ["b"], [], [LACKING]),
        ("%d a", "%d as", ["ein b", "%d b"], ["python-format"], [LACKING]),
        ("%(n)d a", "%(n)d as", ["ein b", "%(n)d b"], ["python-format"], []),
    ],
)
def test_errors_of_messages(
    msgid: str, plural: str | None, forms: Sequence[str], flags: Collection[str], errors: Sequence[str]
) -> None:
    assert message_errors(msgid, plural, forms, flags, (False, True)) == errors


@given(st.text(st.sampled_from("%$*.0123(){}:![]<>dsnlPRI64a\n \u0663"), max_size=30))
def test_a_text_is_a_valid_translation_of_itself(text: str) -> None:
    for flag in ("c-format", "python-format", "python-brace-format", "fuzzy"):
        assert message_errors(text, None, [text], [flag]) == []
        assert message_errors("a" + text, "b" + text, ["c" + text, "d" + text], [flag], (True, True)) == []


def test_long_texts_take_no_longer_than_others() -> None:
    """Linear time: minutes otherwise."""
    for text in ("%" + "0" * 10**6, "%." + "1" * 10**6 + "y", "%(" * 10**5, "{a:{" + "b" * 10**6):
        assert message_errors(text, None, [text], ["c-format", "python-format", "python-brace-format"]) == []
