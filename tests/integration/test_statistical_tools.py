"""Statistical aligners: the real ones where pip installs them, stand-ins that the test writes for programs."""

import math
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from align.baselines import fast_align
from align.baselines.fast_align import _SYSTRAN, Table
from align.baselines.process import find_program
from align.baselines.tools import align_with
from align.core.types import Links, Pair, TextWarning
from align.evaluation.dialects import symmetrize
from tests.conftest import example_pairs, needs_systran
from tests.corpora import NUMBERED_WORDS, word_by_word

INSTALLED = (pytest.param("fast_align", marks=needs_systran), "eflomal")


@pytest.fixture(autouse=True)
def no_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A PATH with nothing but what a test puts there, and a folder for temporary files that a test can inspect."""
    programs, temporary = tmp_path / "bin", tmp_path / "tmp"
    programs.mkdir()
    temporary.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    return programs


@pytest.fixture
def put(no_programs: Path) -> Callable[..., None]:
    def program(name: str, code: str) -> None:
        path = no_programs / name
        path.write_text(f"#!{sys.executable}\nimport os, sys\nargs = sys.argv[1:]\n{code}")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    return program


def pairs(*lines: str) -> list[Pair]:
    return [
        Pair(tuple(source.split()), tuple(target.split()), number)
        for number, (source, _, target) in enumerate((line.partition("|") for line in lines), 1)
    ]


def dictionary(count: int = 300, seed: int = 1) -> list[Pair]:
    return word_by_word(count, seed, NUMBERED_WORDS, shortest=3)


def diagonal(pair: Pair) -> Links:
    return frozenset((i, i) for i in range(len(pair.source)))


# Tools that pip installs


@pytest.mark.parametrize("tool", INSTALLED)
@pytest.mark.parametrize("how", ["plain", "apart"])
def test_translations_are_found(tool: str, how: str) -> None:
    text, test = dictionary(), dictionary(40, seed=2)
    if how == "plain":
        aligned = list(align_with(tool, test + text))[: len(test)]
    else:
        aligned = list(align_with(tool, test, train=iter(text)))
    wrong = sum(links != (diagonal(pair), diagonal(pair)) for pair, links in zip(test, aligned, strict=True))
    assert wrong == 0 if tool == "fast_align" else wrong <= 4


@pytest.mark.parametrize("tool", INSTALLED)
def test_real_sentences_and_a_blank_line(tool: str, capfd: pytest.CaptureFixture[str]) -> None:
    text = example_pairs()
    aligned = list(align_with(tool, iter(text)))
    assert len(aligned) == len(text) == 21
    for pair, (forward, reverse) in zip(text, aligned, strict=True):
        assert bool(forward) != pair.blank
        assert bool(reverse) != pair.blank
        assert len({j for _, j in forward}) == len(forward)
        assert len({i for i, _ in reverse}) == len(reverse)
        assert all(i < len(pair.source) and j < len(pair.target) for i, j in forward | reverse)
    assert capfd.readouterr() == ("", "")
    assert not os.listdir(tempfile.gettempdir())


ODD = ["|||", "<eps>", "a\u00a0b", "p\u2028q", "\0", "w" * 100_000, "({", "NULL", "\ud800", "2"]


@needs_systran
def test_no_word_is_special() -> None:
    def odd(words: Iterable[str]) -> tuple[str, ...]:
        return tuple(ODD[int(word[1:])] if int(word[1:]) < len(ODD) else word for word in words)

    text = dictionary(200)
    strange = [Pair(odd(pair.source), odd(pair.target), pair.id) for pair in text]
    assert list(align_with("fast_align", strange)) == list(align_with("fast_align", text))


def test_nothing_to_align() -> None:
    tool = "eflomal"
    nothing = (frozenset(), frozenset())
    assert list(align_with(tool, [])) == []
    assert list(align_with(tool, pairs("|", "a|", "|b"))) == [nothing] * 3
    with pytest.raises(ValueError, match=f"{tool} has no pair to train on"):
        list(align_with(tool, pairs("a|b"), train=pairs("a|", "|")))


def test_what_is_too_long_is_left_out_with_a_warning() -> None:
    text = dictionary(30)
    text[3] = Pair(("s1",) * 1024, ("t1", "t2"), 4)
    text[5] = Pair(("s1", "s2"), ("t1",) * 5000, 6)
    text[7] = Pair(("s1",) * 1023, ("t1", "t2"), 8)
    with pytest.warns(TextWarning, match=r"eflomal cannot take line 4 and 1 more \(more than 1,023 words\)"):
        aligned = list(align_with("eflomal", text))
    assert aligned[3] == aligned[5] == (frozenset(), frozenset())
    assert aligned[7][0] | aligned[7][1]
    assert sum(links[0] == diagonal(pair) for pair, links in zip(text, aligned, strict=True)) >= 20


# Tables of systran-align


def learn(text: list[Pair], folder: Path, beam: str = "-4") -> tuple[list[tuple[str, str]], Path, Path]:
    numbers: dict[str, str] = {}
    lines = [
        tuple(" ".join(numbers.setdefault(w, str(len(numbers) + 2)) for w in side) for side in (p.source, p.target))
        for p in text
        if not p.blank
    ]
    (folder / "text").write_text("".join(f"{source} ||| {target}\n" for source, target in lines))
    tables = folder / "forward.table", folder / "reverse.table"
    subprocess.run(
        [sys.executable, "-c", _SYSTRAN, folder / "text", *tables, beam],
        check=True,
        capture_output=True,
        env={"OMP_NUM_THREADS": "1"},
    )
    return [(source, target) for source, target in lines], *tables


@needs_systran
def test_best_links_are_those_of_the_library(tmp_path: Path) -> None:
    """Symmetrised as the library does it, with the tension that it uses and its floor under probabilities."""
    import systran_align

    lines, *paths = learn([*example_pairs(), *dictionary(100), *pairs("zzz|yyy")], tmp_path)
    library = systran_align.Aligner(*map(str, paths))
    tables = [Table(path) for path in paths]
    for table in tables:
        table.values = np.maximum(table.values.astype(np.float64), fast_align.UNSEEN)
    same = 0
    for texts in lines[:-1]:  # the library counts the last row of a table twice
        theirs = library.align(texts[0].split(), texts[1].split())
        ours = []
        keys = "forward_log_prob", "backward_log_prob"
        for table, (origins, words), key in zip(tables, (texts, texts[::-1]), keys, strict=True):
            ids = table.ids(origins), table.ids(words)
            ours.append(table.best(*ids, 4.0))
            length = 0.05 + len(ids[0])  # it adds a Poisson distribution of the length
            score = np.log(table.joint(*ids, np.arange(len(ids[1])), 4.0).sum(1)).sum()
            score += len(ids[1]) * math.log(length) - length - math.lgamma(len(ids[1]) + 1)
            assert score == pytest.approx(theirs[key], rel=1e-9)
        reverse = frozenset((i, j) for j, i in ours[1])
        links = symmetrize(frozenset(ours[0]), reverse, "grow-diag-final-and")
        same += links == frozenset(map(tuple, theirs["alignments"]))
    assert same == len(lines) - 1


# Programs: fast_align

FAST_ALIGN = """
at = {a: b for a, b in zip(args, args[1:] + [""])}
lines = [l.split() for l in open(at["-i"])]
with open(os.environ["LOG"], "a") as log:
    print(*(a if not os.path.isabs(a) else os.path.basename(a) for a in args), file=log)
    print(*(" ".join(l) for l in lines), sep=" / ", file=log)
direction = "reverse" if "-r" in args else "forward"
digit = {"forward": "5", "reverse": "4"}[direction]
print("expected target length = source length * 1." + digit, file=sys.stderr)
print("     final tension: 5.5\\n     final tension: 6." + digit, file=sys.stderr)
if "-p" in args:
    open(at["-p"], "w").write(direction)
if "-f" in args:
    assert open(at["-f"]).read() == direction
for l in lines:
    cut = l.index("|||")
    links = [f"{0 if direction == 'forward' else i}-{i if direction == 'forward' else 0}"
             for i in range(len(l) - cut - 1 if direction == 'forward' else cut)]
    if "-f" in args:
        print(*l[:cut], "|||", *l[cut + 1:], "|||", *links, "|||", "-12.5")
    else:
        print(*links)
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "log"
    monkeypatch.setenv("LOG", str(path))
    return path


STARS = [({(0, 0), (0, 1)}, {(0, 0), (1, 0), (2, 0)}), (frozenset(), frozenset()), ({(0, 0)}, {(0, 0)})]
TEST = pairs("a b a|x y", "|z", "b|y")


@pytest.mark.parametrize("apart", [False, True])
def test_the_program_on_path_comes_first(put: Callable[..., None], log: Path, apart: bool) -> None:
    put("fast_align", FAST_ALIGN)
    train = pairs("c a|y", "|") if apart else None
    assert list(align_with("fast_align", TEST, train=train)) == STARS
    text, test = ("2 3 ||| 2", "3 4 3 ||| 3 2 / 4 ||| 2") if apart else ("2 3 2 ||| 2 3 / 3 ||| 3", "")
    assert log.read_text().splitlines() == (
        [
            *("-i text -d -o -v -p table", text, "-i test -d -T 6.5 -m 1.5 -f table", test),
            *("-i text -d -o -v -r -p table", text, "-i test -d -T 6.4 -m 1.4 -f table -r", test),
        ]
        if apart
        else ["-i text -d -o -v", text, "-i text -d -o -v -r", text]
    )


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("print('0-0')", "fast_align gave 1 lines of links for 2 pairs"),
        ("print('0-0 1-0\\n0-0')", "line 1: fast_align gave impossible links: a target word has two links"),
        ("os.kill(os.getpid(), 9)", r"fast_align failed \(signal 9: memory may have run out\)"),
    ],
)
def test_impossible_output(put: Callable[..., None], code: str, message: str) -> None:
    put("fast_align", code)
    with pytest.raises(ValueError, match=message):
        list(align_with("fast_align", TEST))
    assert not os.listdir(tempfile.gettempdir())


# Programs: GIZA++ and MGIZA

MKCLS = """
text, classes = (next(a for a in args if a.startswith(s))[2:] for s in ("-p", "-V"))
assert [a for a in args if a[:2] not in ("-p", "-V")] == ["-c50", "-n2", "opt"]
open(classes, "w").writelines(f"{w}\\t2\\n" for w in sorted(set(open(text).read().split())))
"""

SNT2COOC = """
names = [os.path.basename(a) for a in args]
vocabularies = ["text.source.vcb", "text.target.vcb"]
assert names in ([*PRE, *vocabularies, "forward.snt"], [*PRE, *vocabularies[::-1], "reverse.snt"]), names
open(args[0], "w").write("together") if PRE else print("together")
"""

GIZA = """
at = {a: b for a, b in zip(args, args[1:])}
assert open(at["-CoocurrenceFile"]).read().strip() == "together"
assert [at["-" + x] for x in ("m1", "m2", "mh", "m3", "m4")] == ["5", "0", "5", "3", "3"]
assert at.get("-ncpus") == CPUS
words = [dict(l.split()[:2] for l in open(at[x])) for x in ("-S", "-T")]
assert all(os.path.exists(at[x] + ".classes") for x in ("-S", "-T"))
counts = [int(l.split()[2]) for l in open(at["-S"])]
snt = open(at["-C"]).read().splitlines()
assert snt[::3] == ["1"] * (len(snt) // 3)
parts = [open(at["-o"] + name, "w") for name in PARTS]
for number in reversed(range(len(snt) // 3)):
    source, target = ([w[i] for i in l.split()] for w, l in zip(words, snt[3 * number + 1:]))
    rows = [[j + 1 for j in range(len(target)) if min(j, len(source)) == i] for i in range(len(source) + 1)]
    rows = [rows[-1], *rows[:-1]]
    print(f"# Sentence pair ({number + 1}) source length {len(source)} target length {len(target)}",
          "alignment score : 1.5e-09", file=parts[number % len(parts)])
    print(*target, "", file=parts[number % len(parts)])
    print(*(f"{w} ({{ {''.join(f'{j} ' for j in r)}}})" for w, r in zip(["NULL", *source], rows)), "",
          file=parts[number % len(parts)])
"""


def put_giza(put: Callable[..., None], multi: bool) -> None:
    parts = [".A3.final.part000", ".A3.final.part001"] if multi else [".A3.final"]
    put("mkcls", MKCLS)
    put("snt2cooc" if multi else "snt2cooc.out", SNT2COOC.replace("PRE", "[names[0]]" if multi else "[]"))
    giza = GIZA.replace("CPUS", "'1'" if multi else "None").replace("PARTS", repr(parts))
    put("mgiza" if multi else "GIZA++", giza)


@pytest.mark.parametrize("multi", [True, False])
def test_giza(put: Callable[..., None], multi: bool) -> None:
    put_giza(put, multi)
    text = pairs("a b c|x y", "|", "a b|x y z", "b|y", "c a|x x")
    aligned = list(align_with("giza", text, threads=3))
    two, one = {(0, 0), (1, 1)}, {(0, 0)}
    assert aligned == [(two, two), (frozenset(), frozenset()), (two, two), (one, one), (two, two)]


def test_a_program_of_the_current_folder_is_not_run(
    put: Callable[..., None], no_programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty part of PATH names it, as for a shell."""
    put_giza(put, multi=True)
    monkeypatch.chdir(no_programs)
    monkeypatch.setenv("PATH", os.pathsep.join(("", ".", os.path.join("..", no_programs.name))))
    with pytest.raises(ModuleNotFoundError, match="put mgiza, mkcls, snt2cooc"):
        list(align_with("giza", []))
    monkeypatch.setenv("PATH", os.pathsep.join(("", str(no_programs))))
    assert find_program("mgiza") == str(no_programs / "mgiza")


def test_a_tool_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("align.baselines.fast_align.find_spec", lambda name: None)
    monkeypatch.setattr("align.baselines.tools.find_spec", lambda name: None)
    for tool, message in (
        ("fast_align", r"pip install systran-align \(Linux on x86-64, .*\), or put fast_align on PATH"),
        ("eflomal", "pip install eflomal"),
        ("giza", "put mgiza, mkcls, snt2cooc, or GIZA.., mkcls, snt2cooc.out on PATH"),
    ):
        with pytest.raises(ModuleNotFoundError, match=message):
            list(align_with(tool, []))
