"""`extract-align` from the outside: exact bytes, exit codes, and every kind of bad input."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import gzip
import json
import lzma
import os
import pty
import random
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

import align
from align.cli import common, extract
from align.models.fairseq.checkpoint import load_checkpoint
from tests import toy
from tests.cli.conftest import Result, failed
from tests.conftest import EXAMPLES, ROOT
from tests.golden_files import assert_same_but_for_rounding

GOLDEN = ROOT / "tests" / "golden"
TOY = ("-m", GOLDEN / "models" / "de-en", GOLDEN / "text")
"""The model and the text of golden files."""

LINKS = (GOLDEN / "toy.pharaoh").read_bytes()
COMMAND = [sys.executable, "-m", "align"]
COMBINE = [sys.executable, "-m", "align", "combine"]


@pytest.fixture
def run(run_main: Callable[..., Result]) -> Callable[..., Result]:
    """The command in this process, which spares importing torch again."""
    return partial(run_main, extract.main)


@pytest.fixture
def toy_model(tmp_path: Path) -> Path:
    """A checkpoint with room for 40 pieces a side."""
    return toy.save_model(tmp_path / "toy")


# What comes out


@pytest.mark.parametrize(
    ("golden", "arguments", "unit"),
    [
        ("toy.pharaoh", (), None),
        ("toy.scores", ("--scores",), "0.01"),
        ("toy.jsonl", ("-f", "jsonl"), "0.0001"),
        ("toy.offsets", ("-f", "offsets"), None),
        (
            "toy.weight-output",
            ("--head", "all", "--threshold", "none", "--score", "weight", "--position", "output", "--layer", "2"),
            None,
        ),
        ("toy.null-none", ("--null", "none"), None),
        ("toy.null-mask", ("--position", "input", "--head", "all", "--threshold", "none", "--null", "mask"), None),
        ("toy.two-way", ("--reverse-model", GOLDEN / "models" / "back"), None),
    ],
)
def test_a_toy_model_gives_these_bytes(
    run: Callable[..., Result], golden: str, arguments: tuple[object, ...], unit: str | None
) -> None:
    result = run(*TOY, *arguments)
    assert result.code == 0
    assert_same_but_for_rounding(result.out, (GOLDEN / golden).read_bytes(), unit)


def test_the_bundled_models_align(run: Callable[..., Result]) -> None:
    lines = run("-q", EXAMPLES).out.splitlines()
    assert len(lines) == 21
    assert lines[1] == b"0-0 1-1 2-2 3-3 4-5 5-4 6-6 7-7 8-8 9-9"
    assert run("-q", EXAMPLES, "--reverse-model", "en-de").out.splitlines()[1] == lines[1]


def test_all_ways_in_are_one(run: Callable[..., Result], tmp_path: Path) -> None:
    model, text = TOY[:2], TOY[2].read_bytes()

    def links(*arguments: object, stdin: bytes = b"") -> bytes:
        return run("-q", *model, *arguments, stdin=stdin).out

    assert links(stdin=text) == LINKS
    assert links("-", stdin=text.replace(b" ||| ", b"\t")) == LINKS
    assert links(stdin=text.replace(b"\n", b"\r\n")) == LINKS
    assert links(stdin=b"\xef\xbb\xbf" + text) == LINKS
    assert links(stdin=text.removesuffix(b"\n")) == LINKS
    for name, pack in (("text.gz", gzip.compress), ("text.xz", lzma.compress)):
        (tmp_path / name).write_bytes(pack(text))
        assert links(tmp_path / name) == LINKS
    sides = [[line.split(b" ||| ")[n] if line else b"" for line in text.splitlines()] for n in (0, 1)]
    for name, side in zip(("de", "en"), sides, strict=True):
        (tmp_path / name).write_bytes(b"\n".join(side) + b"\n")
    assert links("-s", tmp_path / "de", "-t", tmp_path / "en") == LINKS
    assert links("-s", tmp_path / "de", "-t", "-", stdin=b"\n".join(sides[1])) == LINKS


def test_output_is_packed_by_its_name(run: Callable[..., Result], tmp_path: Path) -> None:
    for suffix, unpack in ((".gz", gzip.decompress), (".xz", lzma.decompress)):
        links = tmp_path / f"links{suffix}"
        assert run("-q", *TOY, "-o", links).code == 0
        assert unpack(links.read_bytes()) == LINKS
    failed(run("-q", stdin=lzma.compress(b"a ||| b\n")), "stdin: the file is compressed data: unpack it first")


def test_the_input_is_never_replaced(run: Callable[..., Result], tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"das haus ||| the house\n")
    result = run(text, "-o", tmp_path / "." / "text")
    assert result.code == 2
    assert "-o would replace the input" in result.err
    assert text.read_bytes() == b"das haus ||| the house\n"


def test_output_may_be_a_device_or_a_pipe_and_keeps_its_mode(run: Callable[..., Result], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        assert run("-q", "-o", pipe, *TOY).code == 0
        assert reader.communicate()[0] == LINKS
    links = GOLDEN / "toy.pharaoh"
    command = f"{' '.join(COMBINE)} -q --symmetrize union -o /dev/stdout {links} {links} | cat"
    assert subprocess.run(command, shell=True, capture_output=True).stdout == LINKS
    private = tmp_path / "private"
    private.touch(0o600)
    link = tmp_path / "link"
    link.symlink_to(private)
    assert run("-q", "-o", link, *TOY).code == 0
    assert private.read_bytes() == LINKS
    assert (private.stat().st_mode & 0o777, link.is_symlink()) == (0o600, True)


def test_output_file_is_complete_and_stdout_empty(run: Callable[..., Result], tmp_path: Path) -> None:
    result = run("-o", tmp_path / "links", *TOY)
    assert (result.code, result.out) == (0, b"")
    assert (tmp_path / "links").read_bytes() == LINKS
    assert [path.name for path in tmp_path.iterdir()] == ["links"]
    assert run("-o", "-", *TOY).out == LINKS


def test_stderr_says_what_was_done(run: Callable[..., Result]) -> None:
    lines = run(EXAMPLES, "--threads", 2, "--device", "cpu").err.splitlines()
    model = r"fairseq:de-en@\w+ on cpu \(2 threads\); text: de \(lower case, moses tokens, sentencepiece pieces\), .*"
    assert re.fullmatch(f"extract-align: no -m given, so German to English: {model}", lines[0])
    named = run(EXAMPLES, "-m", "de-en", "--threads", 2, "--device", "cpu").err.splitlines()
    assert lines[0].replace("no -m given, so German to English: ", "") == named[0]
    assert lines[1] == (
        "extract-align: layer 1, head 1; output position: layer 2, all heads "
        "(the model's own calibration, under 50 pairs in the buffer to choose by)"
    )
    assert lines[2].startswith("extract-align: 21 lines, 1 blank, 0 bad, ")
    assert lines[3].startswith("align|fairseq:de-en@")
    assert lines[3].endswith(
        "|norm|layer:auto(1)|head:auto(1)|both|output-layer:auto(2)|output-head:auto(all)|sum/mean|null:eos"
        f"|threshold:0.5|v:{align.__version__}"
    )
    assert run(EXAMPLES, "-q").err == ""


@pytest.mark.parametrize(("linked", "unlinked", "said"), [(4, 1, ""), (3, 1, ", 1 without a link"), (0, 0, "")])
def test_many_lines_without_a_link_are_counted(linked: int, unlinked: int, said: str) -> None:
    counts = Counter({"": linked, extract.UNLINKED: unlinked, "blank": 9, "too long": 2})
    told = extract.summary(common.Progress("x", True), counts).rpartition(", ")[0]
    assert told == f"0 lines, 9 blank, 2 bad (2 too long){said}"


def test_a_text_whose_links_are_all_below_the_threshold(run: Callable[..., Result]) -> None:
    assert "extract-align: 21 lines, 1 blank, 0 bad, 20 without a link, " in run(EXAMPLES, "--threshold", 1).err


def test_the_choice_is_told_even_where_blank_lines_come_first(run: Callable[..., Result]) -> None:
    result = run("--buffer", 3, stdin="\n" * 4 + "das haus ||| the house\n")
    assert result.out == b"\n\n\n\n0-0 1-1\n"
    assert result.err.count("(the model's own calibration") == 1


def test_a_bar_on_a_terminal() -> None:
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, 100, 0, 0))  # tqdm shows nothing where it is 0 wide
    with subprocess.Popen([*COMMAND, *TOY], stdout=subprocess.PIPE, stderr=terminal) as process:
        out, _ = process.communicate()
    os.close(terminal)
    seen = b""
    with contextlib.suppress(OSError):  # the end of a pseudo-terminal
        while block := os.read(main, 4096):
            seen += block
    os.close(main)
    assert out == LINKS
    assert b"\rchoosing layer and head" in seen
    assert re.search(r"\r *\d+%\|[^|]+\| \d+ lines?, [\d,]+ lines/s, 0:00:\d\d left", seen.decode())
    assert b"20 lines, 1 blank" in seen


def test_progress_without_a_terminal(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(common, "REPORT_EVERY", 0.0)
    lines = b"das haus ||| the house\n" * 150
    (tmp_path / "text.gz").write_bytes(gzip.compress(lines))
    arguments = ("--layer", 1, "--head", 1, "--batch-tokens", 100, "--buffer", 100)
    progress = r"\nextract-align: %d lines%s, [\d,]+ lines/s%s\n"
    told = run(*arguments, stdin=lines).err  # after each batch, of a buffer of which nothing is written yet
    assert [bool(re.search(progress % (n, "", ""), told)) for n in (33, 34, 133)] == [True, False, True]
    told = run(*arguments, tmp_path / "text.gz").err
    assert re.search(progress % (133, r" \(88%\)", ", 0:00:0. left"), told)


def test_signature_alone(run: Callable[..., Result]) -> None:
    result = run("--signature", "--layer", 2, "-q", stdin="never read")
    assert result.out.startswith(b"align|fairseq:de-en@")
    assert b"|layer:2|head:auto|" in result.out


def test_bfloat16_is_signed_and_close(run: Callable[..., Result]) -> None:
    result = run(*TOY, "--dtype", "bfloat16")
    assert "|dtype:bfloat16|" in result.err
    ours, plain = ([set(line.split()) for line in text.splitlines()] for text in (result.out, LINKS))
    assert sum(len(a & b) for a, b in zip(ours, plain, strict=True)) > 0.9 * sum(map(len, plain))


# Odd input that is fine: a line out for each line in, indices of the user's own words


@pytest.mark.parametrize(
    ("line", "source_words", "target_words"),
    [
        ("", 0, 0),
        ("   ||| ", 0, 0),
        ("haus ||| ", 1, 0),
        ("haus ||| house", 1, 1),
        ("ein 😀 👩‍👩‍👧 haus ||| a 😀 👩‍👩‍👧 house", 4, 4),
        ("das\u00a0alte\u2028haus steht da ||| the\u0085old house\u2029 is there", 3, 4),
        ("漢字 ქართული ||| 漢字 word", 2, 2),
        ("a\x00b \x07 \x1b[31m haus ||| \x08 house \x7f", 4, 3),
        ("</s> <pad> <unk> haus ||| </s> <s> house", 4, 3),
        ("haus\u00ad \u200b ||| \ufeff house", 2, 2),
    ],
)
def test_odd_lines_keep_their_place(
    run: Callable[..., Result], line: str, source_words: int, target_words: int
) -> None:
    result = run("-q", "-f", "jsonl", stdin=f"das haus ||| the house\n{line}\nja ||| yes\n")
    assert result.code == 0
    records = [json.loads(record) for record in result.out.decode().split("\n")[:-1]]
    assert len(records) == 3
    assert (len(records[1]["source"]), len(records[1]["target"])) == (source_words, target_words)
    assert all(i < source_words and j < target_words for i, j in records[1]["links"])
    assert records[0]["links"] == [[0, 0], [1, 1]]
    assert records[2]["links"] == [[0, 0]]


def test_empty_input_gives_empty_output(run: Callable[..., Result]) -> None:
    result = run(stdin="")
    assert (result.code, result.out) == (0, b"")
    assert "0 lines" in result.err


def test_five_thousand_words(run: Callable[..., Result]) -> None:
    lines = "das haus ||| the house\n" + "haus " * 5000 + "||| house\nja ||| yes\n"
    result = run(stdin=lines)
    failed(result, "stdin, line 2: source has", "the model takes 1,024", "--bad-lines blank")
    assert result.out == b"0-0 1-1\n"
    result = run("--bad-lines", "blank", stdin=lines)
    assert (result.code, result.out) == (0, b"0-0 1-1\n\n0-0\n")
    assert "3 lines, 0 blank, 1 bad (1 too long), " in result.err


def test_text_in_pieces_and_a_model_without_toml(run: Callable[..., Result], toy_model: Path) -> None:
    result = run("-m", toy_model, "-f", "jsonl", "--null", "none", stdin="das ha@@ us ist ||| the house\n")
    assert json.loads(result.out)["source"] == ["das", "ha@@", "us", "ist"]
    assert "de (as it is: no tokenizer, no subwords)" in result.err


# Bad input: exit 1, file and line, and what came before is not lost


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"no separator here", "no ||| and no TAB"),
        (b"one ||| two ||| three", "3 fields"),
        (b"latin-1: gr\xfc\xdfe ||| x", "not UTF-8 (byte 0xfc at position 12)"),
    ],
)
def test_a_bad_line_stops_with_file_and_line_after_the_lines_before_it(
    run: Callable[..., Result], tmp_path: Path, line: bytes, message: str
) -> None:
    path = tmp_path / "bitext"
    path.write_bytes(b"das haus ||| the house\n\n" + line + b"\nja ||| yes\n")
    result = run(path)
    failed(result, f"{path}, line 3: ", message)
    assert result.out == b"0-0 1-1\n\n"


def test_an_error_leaves_no_half_written_file(run: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "links").write_bytes(b"of before\n")
    failed(run("-o", tmp_path / "links", stdin=b"das haus ||| the house\nbroken\n"), "stdin, line 2")
    assert (tmp_path / "links").read_bytes() == b"of before\n"
    assert [path.name for path in tmp_path.iterdir()] == ["links"]


def test_files_that_are_not_parallel(run: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "de").write_text("das haus\nja\nnein\n", encoding="utf-8")
    (tmp_path / "en").write_text("the house\n", encoding="utf-8")
    result = run("-s", tmp_path / "de", "-t", tmp_path / "en")
    failed(result, "de has 3 lines", "en has 1")
    assert result.out == b"0-0 1-1\n"


def test_random_lines(run: Callable[..., Result], toy_model: Path) -> None:
    numbers = random.Random(1)
    alphabet = [*map(chr, range(0x250)), "|", "|||", " ||| ", "\t", " ", "\u2028", "😀", "漢", "haus", "the"]
    alphabet.remove("\n")
    lines = []
    for _ in range(2000):
        sides = (
            "".join(numbers.choices(alphabet, k=numbers.randrange(12))).replace("|", "").replace("\t", " ")
            for _ in "st"
        )
        lines.append(" ||| ".join(sides))
    result = run("-q", "-m", toy_model, "--bad-lines", "blank", stdin="\n".join(lines) + "\n")
    assert (result.code, result.out.count(b"\n")) == (0, 2000)
    # the same through the bundled model: Moses, sentencepiece, and a choice of layer and head on such text
    result = run("-q", "--bad-lines", "blank", stdin="\n".join(lines[:200]) + "\n")
    assert (result.code, result.out.count(b"\n")) == (0, 200)
    for seed in range(2):
        noise = random.Random(seed).randbytes(20_000)
        failed(run("-q", "-m", toy_model, stdin=noise), "stdin, line ")
        result = run("-q", "-m", toy_model, "--bad-lines", "blank", stdin=noise)
        assert (result.code, result.out.count(b"\n")) == (0, noise.removesuffix(b"\n").count(b"\n") + 1)
    loose = "\n".join("".join(numbers.choices(alphabet, k=8)) for _ in range(1000))
    failed(run("-q", "-m", toy_model, stdin=loose), "stdin, line ")
    result = run("-q", "-m", toy_model, "--bad-lines", "blank", stdin=loose)
    assert (result.code, result.out.count(b"\n")) == (0, 1000)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("no/such/file",), ("no/such/file: No such file",)),
        (("-m", "no/such/model"), ("no/such/model: no such file",)),
        (("--layer", 9), ("layer 9 is out of range", "has 3 layers")),
        (("--head", 9), ("head 9 is out of range", "has 4 heads")),
        (("--device", "cuda"), ("no CUDA device",)),
        (
            ("--source-lang", "xx"),
            ("dict.xx.txt: no such dictionary; there are those of: de, en: name another folder",),
        ),
        (("-o", "no/such/folder/links"), ("no/such/folder/links: cannot write: No such file",)),
        (("-o", "/dev/full"), ("/dev/full: cannot write: No space left",)),
    ],
)
def test_errors_name_what_is_wrong(
    run: Callable[..., Result], arguments: tuple[object, ...], parts: tuple[str]
) -> None:
    if "cuda" in arguments and torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    inputs = () if arguments[0] == "no/such/file" else (EXAMPLES,)
    failed(run("-q", *arguments, *inputs), *parts)


def test_a_damaged_checkpoint_and_a_wrong_dictionary(run: Callable[..., Result], toy_model: Path) -> None:
    dictionary = toy_model.parent / "dict.de.txt"
    toy.save_dictionary(dictionary, ["nur", "drei", "worte"])
    failed(run("-m", toy_model, EXAMPLES), "dict.de.txt: 7 entries", "was trained with 14")
    toy_model.write_bytes(toy_model.read_bytes()[:1000])
    failed(run("-m", toy_model, EXAMPLES), f"{toy_model}: not a checkpoint")


def test_swapped_sides_are_warned_about(run: Callable[..., Result]) -> None:
    swapped = [
        " ||| ".join(reversed(line.split(" ||| "))) for line in EXAMPLES.read_text(encoding="utf-8").splitlines()
    ]
    result = run("-q", stdin="\n".join(swapped))
    assert result.code == 0
    assert "extract-align: warning: the text takes " in result.err
    assert "is the source first" in result.err


def test_subwords_for_one_side_only_are_refused(run: Callable[..., Result], toy_model: Path) -> None:
    (toy_model.parent / "en.spm").write_bytes((ROOT / "align" / "models" / "bundled" / "de-en" / "en.spm").read_bytes())
    advice = "name the file of each with extract-align models describe MODEL --subwords-file, or the one of both"
    failed(run("-m", toy_model, EXAMPLES), f"subwords for one side, but none for de: {advice}")


def test_missing_dictionaries_are_asked_for(run: Callable[..., Result], toy_model: Path) -> None:
    folder, data = toy_model.parent, toy_model.parent / "data-bin"
    state = load_checkpoint(toy_model)
    state["cfg"]["task"] = {"_name": "translation", "data": "data-bin/{te}"}
    torch.save(state, toy_model)
    data.mkdir()
    for language in ("de", "en"):
        (folder / f"dict.{language}.txt").rename(data / f"dict.{language}.txt")
    failed(
        run("-m", toy_model, EXAMPLES),
        f"{folder}: no dictionaries (dict.LANG.txt) in this folder (when the model was trained they were in "
        "'data-bin/{te}'): name the folder that fairseq-preprocess wrote with extract-align models describe MODEL "
        "--dictionaries; the languages come from it too",
    )
    (data / "train.de-en.de.idx").touch()
    failed(run("-m", data, EXAMPLES), "name the checkpoint itself, and this folder with ", f"--dictionaries {data}")


def test_a_model_of_another_toolkit_is_named(run: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").touch()
    (tmp_path / "config.json").write_text('{"model_type": "marian\\u001b[31m"}', encoding="utf-8")
    failed(
        run("-m", tmp_path, EXAMPLES),
        f"{tmp_path}: a model of type marian\\x1b[31m: links need an encoder-decoder Transformer; these are read: ",
    )


def test_a_language_model_is_named_as_what_it_is(run: Callable[..., Result], toy_model: Path) -> None:
    state = load_checkpoint(toy_model)
    state["model"] = {k: v for k, v in state["model"].items() if "encoder" not in k}
    state["cfg"] = {"model": argparse.Namespace(_name="transformer_lm"), "task": {"_name": "language_modeling"}}
    torch.save(state, toy_model)
    failed(
        run("-m", toy_model, EXAMPLES),
        f"{toy_model}: no encoder-decoder attention in it (transformer_lm): links need a Transformer for translation, "
        "not a language model or an encoder alone",
    )


def test_another_models_dictionary_of_the_same_size_is_warned_about(
    run: Callable[..., Result], toy_model: Path
) -> None:
    toy.save_dictionary(toy_model.parent / "dict.de.txt", [f"x{n}" for n in range(10)])
    result = run("-q", "-m", toy_model, stdin="das haus ist alt ||| the house is old\n" * 60)
    assert result.code == 0
    assert "extract-align: warning: 100% of the source pieces in the first 60 pairs are unknown" in result.err


def test_out_of_memory_says_what_helps(capsys: pytest.CaptureFixture[str]) -> None:
    for error in (MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to ...")):

        def job(error: Exception = error) -> None:
            raise error

        assert common.run("x", job) == 1
        assert capsys.readouterr().err == "x: error: out of memory\n"
        assert common.run("x", job, "this helps") == 1
        assert capsys.readouterr().err == "x: error: out of memory; this helps\n"

    def other() -> None:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        common.run("x", other)


@pytest.mark.parametrize(("closed", "code"), [("<&-", 1), (">&-", 1), ("2>&-", 0)])
def test_closed_streams_are_no_tracebacks(tmp_path: Path, closed: str, code: int) -> None:
    """Of any command: all run by `common.run`, and extract-align combine starts fastest."""
    (tmp_path / "links").write_bytes(b"0-0\n")
    command = f"{' '.join(COMBINE)} -q {'-' if closed == '<&-' else 'links'} links {closed}"
    result = subprocess.run(command, shell=True, capture_output=True, cwd=tmp_path)
    assert result.returncode == code
    assert b"Traceback" not in result.stderr
    assert result.stdout == (b"0-0\n" if closed == "2>&-" else b"")


@pytest.mark.parametrize(
    "arguments",
    [
        ("-s", "a"), ("-t", "a"), ("-s", "a", "-t", "b", "c"), ("-s", "-", "-t", "-"), ("--layer", "0"),
        ("--layer", "all"), ("--head", "x"), ("--format", "xml"), ("--buffer", "0"), ("--batch-tokens", "-5"),
        ("--frobnicate",),
    ],
)  # fmt: skip
def test_wrong_usage_is_exit_code_2(run: Callable[..., Result], arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert (result.code, result.out) == (2, b"")
    assert result.err.endswith("extract-align --help lists all options\n")


# A process of its own


def test_help_and_version_answer_without_torch() -> None:
    check = "import sys; sys.argv = ['extract-align', '{}']\nfrom align.cli.main import main\n"
    check += "try: main()\nfinally: assert not {{'torch', 'numpy', 'fairseq'}} & set(sys.modules)"
    for flag, expected in (("--help", "examples:"), ("--version", f"extract-align {align.__version__}")):
        result = subprocess.run([sys.executable, "-c", check.format(flag)], capture_output=True, text=True, check=True)
        assert expected in result.stdout
        assert result.stderr == ""


def start(*arguments: str, **options: object) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen([*COMMAND, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, **options)  # type: ignore[call-overload,no-any-return]


def test_a_line_is_answered_as_soon_as_its_buffer_is_full() -> None:
    with start("-q", "--buffer", "1") as process:
        assert process.stdin
        assert process.stdout
        for _ in range(2):
            process.stdin.write(b"das haus ||| the house\n")
            process.stdin.flush()
            assert process.stdout.readline() == b"0-0 1-1\n"
        process.stdin.close()
        assert process.wait(30) == 0


def test_a_closed_pipe_ends_it_quietly() -> None:
    with start("-q", "--buffer", "1") as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(b"das haus ||| the house\n")
        process.stdin.flush()
        process.stdout.readline()
        process.stdout.close()
        process.stdin.write(b"das haus ||| the house\n" * 10)
        process.stdin.close()
        assert process.wait(30) == common.CLOSED_PIPE
        assert process.stderr
        assert process.stderr.read() == b""


def test_interrupted_it_leaves_no_half_written_file(tmp_path: Path) -> None:
    """By Ctrl-C; test_workers.py has other signals."""
    target = tmp_path / "links"
    target.write_bytes(b"of before\n")
    with start("--buffer", "1", "-o", str(target)) as process:
        assert process.stdin
        process.stdin.write(b"das haus ||| the house\n" * 3)
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while not any(path.name.startswith(".links.") and path.stat().st_size for path in tmp_path.iterdir()):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == common.INTERRUPTED
        assert process.stderr
        assert b"Traceback" not in process.stderr.read()
    assert target.read_bytes() == b"of before\n"
    assert [path.name for path in tmp_path.iterdir()] == ["links"]


def test_full_disk_on_stdout() -> None:
    links = str(GOLDEN / "toy.pharaoh")
    with open("/dev/full", "wb") as full:
        result = subprocess.run([*COMBINE, "-q", links, links], stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 1
    assert "stdout: cannot write: No space left" in result.stderr
    assert "Traceback" not in result.stderr
