"""Commands with files of links, damaged or not, drawn by a seed and a number alone."""

from __future__ import annotations

import gzip
import json
import lzma
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from align.core.formats import format_a3
from align.core.types import Alignment, Gold, Pair
from align.evaluation.dialects import ALL_METHODS
from align.evaluation.link_files import LINK_FORMATS
from align.evaluation.link_formats import NaaclLink, make_gold, number
from tests.corpora import format_marked, format_naacl

WORDS = (
    *("das", "Haus", "({", "})", "NULL", "|||", "\u2028", "\x1b[31m", "\u202erot", "漢字", "3-4", '"'),
    *("\\", "\xa0"),
)
NAMES = ("gold", "hyp", "a b", "\u202ehyp", "\x1b[31mred", "x\ny", "ü.talp", "-0")
TOKENS = (
    *(b"0-0", b"1p1", b"2?2", b"999999999-999999999", b"1000000000-0", b"1" * 5000 + b"-1", b"-1-1", b"0-1:"),
    *(b"0-1:1e999", b"0-1:nan", b"1e999", b"NaN", b"-Infinity", b"1.5", b"({", b"})", b"({ 1 })", b"NULL", b"S", b"P"),
    b"# Sentence pair (1) source length 2 ",
    b"# Sentence pair (999999999) source length 999999999 target length 999999999 alignment score : 1",
    *(b'{"links": [[0, 0]], "links": []}', b'{"links": [[0, 1000000000000]]}', b'{"links": ' + b"[" * 5000),
    *(b'"links"', b"null", b"[[0, 0]]", b"\xef\xbb\xbf", b"\xff\xfe", b"\xed\xa0\x80", b"\x00", b"\x1b[2J", b"\r"),
    *(b"\xe2\x80\xa8", b"\xe2\x80\xae", b"\xc2\xa0", b"\xd9\xa3-\xd9\xa3", b"\t", b" ", b"\n", b"\n\n\n"),
    *(b"100000 1 1 S", b"999999999 1 1", b"0 1 1 S"),
    *(b"0-0/S", b"1-1[P]", b"2-2:P", b"A-0\t", b"0\t", b" ||| -1.5", b"0 ||| a ||| ", b"(0, 0), ", b"0 0 1 1"),
    *(b"NULL-0", b"0-0,1-1", b"S 1 1", b"<wa>", b"<0.1 0.9>", b"0-0/0.5"),
)


@dataclass
class Case:
    """A command and its files; what it must do, where that is known."""

    program: str
    arguments: list[str]
    files: dict[str, str]
    """Bytes that are not UTF-8 as Python's surrogate escapes."""
    lines: int | None = None
    """Of output, where the command succeeds."""
    code: int | None = None
    says: str = ""
    why: str = field(default="", compare=False)

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="ascii")


def load(path: Path) -> Case:
    """A case that was kept."""
    return Case(**json.loads(path.read_text(encoding="ascii")))


def _links(draw: random.Random, pair: Pair) -> Gold:
    cells = [(i, j) for i in range(len(pair.source)) for j in range(len(pair.target))]
    sure, possible = (draw.sample(cells, draw.randint(0, min(6, len(cells)))) for _ in "sp")
    return make_gold(sure, possible if draw.random() < 0.5 else ())


def _written(draw: random.Random, form: str, pairs: list[Pair], base: int) -> str:
    """Links that are drawn for the pairs, in a format."""
    lines = []
    for pair in pairs:
        gold = _links(draw, pair)
        counted = Gold(number(gold.sure, base), number(gold.possible, base))
        if form == "giza":
            lines.append(format_a3(Alignment(pair, dict.fromkeys(gold.sure, 1.0))))
        elif form == "naacl":
            from_1 = sorted(number(gold.possible, 1))
            lines += [format_naacl(NaaclLink(pair.id, link, draw.random() < 0.7)) for link in from_1]
        elif form == "jsonl":
            record = {"links": sorted(gold.sure), "possible": sorted(gold.possible), "scores": [0.5] * len(gold.sure)}
            lines.append(json.dumps(record))
        else:
            marks = {"talp": "p", "question": "?"}
            lines.append(format_marked(counted if form in marks else make_gold(counted.sure), marks.get(form, "p")))
    return "".join(f"{line}\n" for line in lines)


def _damaged(draw: random.Random, raw: bytes) -> bytes:
    """A few changes to bytes, tokens or lines."""
    for _ in range(draw.choice((1, 1, 1, 2, 5))):
        at = draw.randint(0, len(raw))
        end = min(len(raw), at + draw.choice((1, 1, 3, 20)))
        how = draw.randrange(8)
        if how == 0:
            raw = raw[:at] + draw.randbytes(1) + raw[end:]
        elif how == 1:
            raw = raw[:at] + raw[end:]
        elif how == 2:
            raw = raw[:end] + raw[at:]
        elif how == 3:
            raw = raw[:at]
        elif how in (4, 5):
            raw = raw[:at] + draw.choice((b"", b" ")) + draw.choice(TOKENS) + draw.choice((b"", b" ")) + raw[at:]
        else:
            lines = raw.splitlines(keepends=True)
            lines += draw.sample(lines, min(len(lines), 1))
            if how == 6:
                draw.shuffle(lines)
            raw = b"".join(lines)
    return raw


def _packed(draw: random.Random, name: str, raw: bytes) -> tuple[str, bytes, bool]:
    """Now and then compressed, and then now and then cut, changed or misnamed; and whether it is not."""
    if draw.random() > 0.1:
        return name, raw, True
    suffix, pack = draw.choice(((".gz", gzip.compress), (".xz", lzma.compress)))
    raw, whole, right = pack(raw), draw.random() < 0.5, draw.random() < 0.9
    if not whole:
        raw = raw[: draw.randint(0, len(raw))] if draw.random() < 0.5 else _damaged(draw, raw)
    return (name + suffix if right else name), raw, whole and right


def _options(draw: random.Random, text: bool, systems: int, base: int) -> list[str]:
    """What `extract-align eval` may be asked for besides."""
    options: list[str] = []
    for kind in ("gold", "hyp"):
        parts = [f"{draw.choice((base, base, base, 0, 1))}-based"] if draw.random() > 0.2 else []
        parts += [draw.choice(LINK_FORMATS)] if draw.random() < 0.05 else []
        parts += ["swapped"] if draw.random() < 0.05 else []
        options += [f"--{kind}-format", ",".join(parts)] if parts else []
    options += ["--out-of-range", "ignore"] if text and draw.random() < 0.7 else []
    paired = systems > 1 and draw.random() < 0.3
    options += ["--paired", draw.choice(("bootstrap", "permutation"))] if paired else []
    mode = draw.choice(([], ["--per-sentence"], ["--errors", "3"], ["-b"])) if not paired else []
    options += ["--samples", "5" if paired else draw.choice(("0", "5"))] if not mode else []
    if mode == ["-b"]:
        return options + mode
    options += mode
    return options + (["-f", draw.choice(("json", "tsv", "latex"))] if draw.random() < 0.6 else [])


LABELS = ("O", "O", "B-PER", "I-PER", "B-LOC", "I-LOC")
COMMENTS = ("# id 5", "# text = das Haus", "#", "#\tid\tO")


def _columns(draw: random.Random, sentence: tuple[str, ...], blank: Sequence[int]) -> str:
    """A sentence in columns, now and then with comments before it and with so many blank lines behind it."""
    rows = [f"{word}{draw.choice((chr(9), ' '))}{draw.choice(LABELS)}" for word in sentence]
    rows = [*draw.sample(COMMENTS, draw.choice((0, 0, 1, 2))), *rows] if rows else rows
    return "".join(f"{row}\n" for row in rows) + "\n" * (draw.choice(blank) if rows else 1)


def _annotated(draw: random.Random, pair: Pair) -> str:
    """A JSON line with labels of ranges, in the form of one of the programs that write them."""
    text, target = " ".join(pair.source), " ".join(pair.target)
    ranges = [sorted(draw.choices(range(len(text) + 1), k=2)) for _ in range(draw.randrange(3))] if text else []
    ranges = [[begin, end] for begin, end in ranges if text[begin:end].strip()]
    forms: list[dict[str, object]] = [
        {"labels": [[begin, end, "PER"] for begin, end in ranges]},
        {"entities": [{"id": 1, "start_offset": begin, "end_offset": end, "label": "PER"} for begin, end in ranges]},
        {"spans": [{"start": begin, "end": end, "label": "PER"} for begin, end in ranges]},
    ]
    return json.dumps({"text": text, **draw.choice(forms), "target": target}) + "\n"


def _transfer(draw: random.Random, pairs: list[Pair]) -> Case:
    """A case of `extract-align transfer`: tags or labels, links, and what they are to be transferred to."""
    kind = draw.choice(("bio", "bio", "spans", "spans", "xml", "html", "placeholders"))
    if kind == "bio":  # a sentence without words requires a blank line
        pairs = [pair if pair.source else replace(pair, target=()) for pair in pairs]
    files = {"links": _written(draw, draw.choice(("pharaoh", "jsonl")), pairs, 0)}
    targets = "".join(" ".join(pair.target) + "\n" for pair in pairs)
    if kind == "spans":
        files["a.jsonl"] = "".join(_annotated(draw, pair) for pair in pairs)
    elif kind == "bio":
        blank = (1, 1, 2, 3) if all(pair.target for pair in pairs if pair.source) else (1,)
        files |= {"source": "".join(_columns(draw, pair.source, blank) for pair in pairs), "target": targets}
    else:
        tags = ("{0}", "{1}") if kind == "placeholders" else ("<b>", "</b>")
        tagged = [" ".join((tags[0], *pair.source, tags[1])) for pair in pairs]
        files |= {"source": "".join(f"{line}\n" for line in tagged), "target": targets}
    whole = "\x1b" not in "".join(files.values()) or kind != "xml"
    contents = {name: text.encode() for name, text in files.items()}
    for name, content in contents.items():
        if draw.random() < 0.15:
            contents[name], whole = _damaged(draw, content), False
    inputs = ["./a.jsonl"] if kind == "spans" else ["-s", "./source", "-t", "./target"]
    arguments = ["--tags", kind, "--links", "./links", *inputs]
    kept = {name: content.decode("utf-8", "surrogateescape") for name, content in contents.items()}
    lines = None if kind == "bio" else len(pairs)
    return Case("extract-align transfer", arguments, kept, lines if whole else None, 0 if whole else None)


def make(draw: random.Random) -> Case:
    """Draw a case."""

    def words() -> tuple[str, ...]:
        return tuple(draw.choices(WORDS, k=draw.randint(0, 5)))

    pairs = [Pair(words(), words(), n) for n in range(1, draw.choice((0, 1, 3, 6)) + 1)]
    if draw.random() < 0.3:
        return _transfer(draw, pairs)
    combining = draw.random() < 0.3
    systems = 1 if combining else draw.choice((1, 1, 2))
    base = draw.choice((0, 0, 1))
    names = draw.sample(NAMES, 1 + systems)
    files: dict[str, bytes] = {}
    whole = True
    for n, name in enumerate(names):
        form = draw.choice(("pharaoh", "talp", "question", "jsonl") if combining else LINK_FORMATS)
        raw = _written(draw, form, pairs, base).encode()
        if draw.random() < 0.35:
            raw, whole = _damaged(draw, raw), False
        names[n], files[names[n]], intact = _packed(draw, name, raw)
        whole = whole and intact
    shown = [f"./{name}" for name in names]
    if combining:
        arguments = [*shown, "-q", "--symmetrize", draw.choice(tuple(ALL_METHODS))]
    else:
        text = draw.random() < 0.4
        arguments = ["-g", *shown, *_options(draw, text, systems, base)]
        arguments += ["-s", "source", "-t", "target"] if text else []
        for n, side in enumerate(("source", "target") if text else ()):
            files[side] = "".join(" ".join((pair.source, pair.target)[n]) + "\n" for pair in pairs).encode()
            files[side] = _damaged(draw, files[side]) if draw.random() < 0.2 else files[side]
    kept = {name: raw.decode("utf-8", "surrogateescape") for name, raw in files.items()}
    if combining and whole:
        return Case("extract-align combine", arguments, kept, lines=len(pairs), code=0)
    return Case("extract-align combine" if combining else "extract-align eval", arguments, kept)
