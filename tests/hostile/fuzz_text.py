"""Lines of anything through models: as many out as in, in order, in the user's own words, with links within range.

And bytes of anything through the reader, held against one that is written from the documentation alone.
"""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from align.io.reader import read_bitext, read_lines
from tests import toy
from tests.hostile import driver
from tests.hostile.driver import Tried

REAL = (
    *("das", "Haus", "ist", "alt", ".", ",", "the", "house", "is", "old", "und", "and", "z.B.", "U.S.", "Mr."),
    *("it's", "l'", "100.000", "3,5", "EU-Kommission", "don't", "...", "?!", "(", ")", '"', "&amp;", "&"),
    *("<s>", "</s>", "<unk>", "<pad>", "@@", "a@@", "▁", "▁das", "@-@", "#", "%s", "{0}", "$(x)", "`", "\\"),
    *("--", "-", "'", "''"),
)
ODD = (
    *("\x00", "\x01", "\x07", "\x1b[31m", "\x7f", "\x85", "\xa0", "\u2028", "\u2029", "\u200b", "\u200f"),
    *("\u202e", "\u2066", "\ufeff", "\ufffe", "\uffff", "\U0010ffff", "\ue000", "\U000e0001", "é", "́"),
    *("ññññññññññññññññññññ", "\r", "a\rb", "\x0b", "\x0c", "\x1c", "\u3000", "日本語"),
    *("עברית", "العربية", "हिन्दी", "ไทย", "👩\u200d👩\u200d👧", "🇩🇪", "ß", "İ", "ǆ", "ﬁ", "𝔘", "|", "||", "|a"),
    *("a||", "ǀǀǀ", "\\n", "\\t", "0-0", "1p1", "{}", "[]", '{"a":1}', "-", "--help"),
    *("%", "\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
)


class Line(NamedTuple):
    """A line of a bitext, and what is in it."""

    raw: bytes
    source: tuple[str, ...]
    target: tuple[str, ...]


def _word(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.5:
        return rng.choice(REAL)
    if kind < 0.75:
        return rng.choice(ODD)
    if kind < 0.8:
        return rng.choice(REAL) + rng.choice(ODD) + rng.choice(REAL)
    if kind < 0.998:
        return "".join(chr(_code(rng)) for _ in range(rng.randrange(1, 9)))
    return rng.choice(("a", "ü", "\u0301", "日", "9", ".", "-a")) * rng.randrange(10, 300)


def _code(rng: random.Random) -> int:
    """A code point that may stand in a word: no blank, TAB, line feed, bar or surrogate."""
    while True:
        code = rng.choice((rng.randrange(0x80), rng.randrange(0x250), rng.randrange(0x3000), rng.randrange(0x110000)))
        if chr(code) not in " \t\n|" and not 0xD800 <= code < 0xE000:
            return code


def _side(rng: random.Random) -> tuple[str, ...]:
    length = rng.choice((0, 1, 1, 2, 2, 3, 4)) if rng.random() < 0.998 else rng.randrange(10, 80)
    return tuple(_word(rng) for _ in range(length))


def lines(count: int, seed: int) -> Iterator[Line]:
    """Random lines in UTF-8, by a seed each, so that any of them can be made again; an odd seed has TABs for `|||`."""
    bars = seed % 2 == 0
    blanks = (" ", " ", " ", "  ")
    for number in range(count):
        rng = random.Random(f"{seed}/{number}")
        source, target = _side(rng), _side(rng)

        def join(words: Sequence[str], rng: random.Random = rng) -> str:
            return "".join(word + rng.choice(blanks) for word in words)

        before, between = join(source), rng.choice(("||| ", "|||", "\t|||", "||| \t") if bars else ("\t",))
        after = join(target)
        if between.endswith("|") and after.startswith("|"):
            between += " "  # four bars in a row are none
        text = before + between + after
        if number == 0:
            text = " " + text  # a byte order mark would be none of the first word's letters
        end = "" if number == count - 1 and rng.random() < 0.5 else rng.choice(("\n", "\n", "\n", "\r\n"))
        if not bars and not source and not target:
            text = " \t "  # a line of nothing but TABs is one with two blank sides
        yield Line((text + " " + end).encode(), source, target)


def check(line: Line, number: int, output: bytes, soft: bool) -> str:
    """What is wrong with the JSON line that came out for a line; nothing for nothing."""
    record = json.loads(output)
    words = tuple(record["source"]), tuple(record["target"])
    if record["id"] != number:
        return f"id {record['id']}"
    if words != (line.source, line.target):
        return "other words"
    links = [tuple(link) for link in record["links"]]
    linked = [j for _, j in links]
    if any(not (0 <= i < len(line.source) and 0 <= j < len(line.target)) for i, j in links):
        return "out of range"
    if len(set(links)) != len(links) or (not soft and len(set(linked)) != len(linked)):
        return "a word linked twice"
    for name, side, found in (("null", line.target, linked), ("source_null", line.source, [i for i, _ in links])):
        if record[name] != [n for n in range(len(side)) if n not in found]:
            return "another list of unlinked words"
    if len(record["scores"]) != len(links) or not all(0 <= score <= 1 for score in record["scores"]):
        return "not scores"
    if (links or record.get("skipped")) and not (line.source and line.target):
        return "links of a blank line"
    return ""


def run(count: int, seed: int, arguments: Sequence[str] = (), keep: Path | None = None) -> Counter[str]:
    """Send lines through `extract-align -f jsonl`; count lines and links, and lines that are wrong or lost.

    Args:
        count: lines.
        seed: of all of them.
        arguments: further ones of the program.
        keep: where to put lines that went wrong, by their seed and number.
    """
    command = [sys.executable, "-m", "align", "-q", "-f", "jsonl", "--bad-lines", "blank", *arguments]
    done = subprocess.run(command, input=b"".join(line.raw for line in lines(count, seed)), stdout=subprocess.PIPE)
    counts = Counter(wrong=int(done.returncode != 0))
    for number, (line, output) in enumerate(zip_longest(lines(count, seed), done.stdout.splitlines()), 1):
        fault = (
            check(line, number, output, "none" not in arguments) if line and output else "a line too few or too many"
        )
        counts["wrong"] += bool(fault)
        counts["lines"] += 1
        counts["links"] += 0 if fault else len(json.loads(output)["links"])
        if fault and counts["wrong"] <= 10:
            print(f"seed {seed}, line {number}: {fault}: {ascii(line)[:200]}", file=sys.stderr)
            if keep and line:
                keep.mkdir(parents=True, exist_ok=True)
                (keep / f"{seed}-{number}").write_bytes(line.raw)
    return counts


def _is_text(content: bytes) -> bool:
    """Whether a file is not of a type that the documentation names, or of one that is not among the parts below."""
    zeros = [position for position, byte in enumerate(content) if byte == 0]
    regular = len(zeros) >= max(8, len(content) // 20) and len({position % 2 for position in zeros}) == 1
    return not regular and not content.startswith((b"\x1f\x8b", b"PK\x03\x04", b"\xff\xfe", b"\xfe\xff"))


def plain_read(content: bytes) -> tuple[list[tuple[list[str], list[str]]], int | None]:
    """The pairs of a bitext up to the first line that cannot be read, and its number: a second, plain reader.

    The number is 0 where the whole file is refused.
    """
    pairs: list[tuple[list[str], list[str]]] = []
    if not _is_text(content):
        return pairs, 0
    separator = ""
    last, counted, in_row = None, 0, 0
    raw = content.split(b"\n")
    for number, part in enumerate(raw[:-1] if raw[-1] == b"" else raw, 1):
        part = part[:-1] if part.endswith(b"\r") else part
        try:
            text = part.decode("utf-8")
        except UnicodeDecodeError:
            return pairs, number
        if number == 1 and text[:1] == "\ufeff":
            text = text[1:]
        first = text.split("\t")[0]
        running = int(first) if "\t" in text and first and set(first) <= set("0123456789") else None
        if text.strip(" \t") and counted < 4:
            counted += 1
            if running is not None and running - 1 == last:
                return pairs, 0
            last = running
            in_row = 0 if running is None else in_row + 1
            if in_row == 3:  # which is only warned of
                counted = 4
        if not text.replace(" ", "").replace("\t", ""):
            pairs.append(([], []))
            continue
        if "||||" in text:
            return pairs, number
        here = "|||" if "|||" in text else "\t"
        sides = text.split(here)
        if len(sides) != 2 or here != (separator or here):
            return pairs, number
        words = [[word for word in side.replace("\t", " ").split(" ") if word] for side in sides]
        if here == "|||" and any("\t" in side.strip(" \t") for side in sides):
            return pairs, number
        separator = here
        pairs.append((words[0], words[1]))
    return pairs, None


def read(content: bytes) -> str:
    """Hold the reader against the plain one: "read" or "refused", alike by both, or what is wrong."""
    expected, bad = plain_read(content)
    found: list[tuple[list[str], list[str]]] = []
    error = ""
    try:
        stream = io.BufferedReader(io.BytesIO(content))
        for pair in read_bitext(read_lines(stream, "x"), "x"):
            found.append((list(pair.source), list(pair.target)))
    except ValueError as refused:
        error = str(refused)
    start = "" if bad is None else f"x, line {bad}: " if bad else "x: "
    if found != expected or bool(error) != bool(start) or not error.startswith(start):
        return f"wrong: {error or found}"
    return "refused" if error else "read"


PARTS = (
    *(b"|||", b"|||", b"||", b"\t", b"\n", b"\n", b"\r\n", b" ", b" ", b"a", b"\xc3\xbc", b"haus", b"\xc2\xa0"),
    *(b"\x0c", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\x00", b"\r", b"a ||| b\n", b"c\td\n", b"\xc2\x85", b"1\t"),
    *(b"2\t",),
)
NO_TEXT = (
    *(b"\xff", b"\xfe", b"PK\x03\x04", b"a\x00 \x00a\x00 \x00a\x00 \x00a\x00 \x00a\x00 \x00", b"\xed\xa0\x80"),
    *(b"\x1f\x8b", b"\xc0\xaf", b"\xf4\x90\x80\x80", b"\x85", b"\xe2\x80"),
)


def some_bytes(rng: random.Random) -> bytes:
    """Parts of bitexts in any order, now and then with bytes that are no text."""
    parts = PARTS + NO_TEXT if rng.random() < 0.3 else PARTS
    content = b"".join(rng.choice(parts) for _ in range(rng.randrange(30)))
    return content + (rng.randbytes(rng.randrange(20)) if rng.random() < 0.1 else b"")


def try_bytes(rng: random.Random) -> Tried:
    """Compare the reader with the plain one on random bytes."""
    content = some_bytes(rng)
    what = read(content)
    kept = partial(_keep_bytes, content)
    return Tried(what) if what in ("read", "refused") else Tried("other", f"{content!r}: {what}", kept)


def _keep_bytes(content: bytes, folder: Path) -> None:
    (folder / "bytes").write_bytes(content)


def main() -> int:
    """Run from the command line."""
    what = sys.argv.pop(1)
    if what == "bytes":
        return driver.main(what, try_bytes, 100_000)
    parser = driver.parser_of(what, 100_000)
    parser.add_argument("--block", type=int, default=50_000, help="lines to send through one run of the program")
    parser.add_argument("--toy", action="store_true", help="through a tiny model of words: more lines in the time")
    parser.add_argument("arguments", nargs="*", metavar="OPTION", help="of extract-align, behind --")
    args = parser.parse_args()
    counts: Counter[str] = Counter()
    end = time.monotonic() + args.seconds
    with TemporaryDirectory() as folder:
        model = ["-m", str(toy.save_model(Path(folder)))] if args.toy else []
        while counts["lines"] < args.count and time.monotonic() < end:
            size = min(args.block, args.count - counts["lines"])
            counts += run(size, args.seed + counts["lines"] // args.block, [*args.arguments, *model], args.keep)
    return driver.print_counts(what, counts)


if __name__ == "__main__":
    sys.exit(main())
