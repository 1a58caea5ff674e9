"""`extract-align --resume`: stopped anywhere it continues to the same bytes; and what it refuses to continue."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from align.cli import extract
from align.cli.loading import load_aligner
from align.io import resume
from align.io.manifest import digest_of
from align.io.output import open_output, temporary_name
from tests import toy
from tests.cli.conftest import Result, failed

pytestmark = pytest.mark.usefixtures("one_thread", "unchecked")

FORWARD, REVERSE = "toys/de-en/checkpoint.pt", "toys/en-de"


def random_lines() -> list[str]:
    """130 pairs, some of them blank."""
    numbers = random.Random(5)
    lines = [
        " ||| ".join(
            " ".join(numbers.choices(words, k=numbers.randrange(1, 9)))
            for words in (toy.SOURCE_WORDS, toy.TARGET_WORDS)
        )
        for _ in range(130)
    ]
    lines[3] = lines[70] = ""
    lines[4] = "das ||| "
    return lines


LINES = random_lines()


@pytest.fixture
def run(
    run_main: Callable[..., Result], write: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """The command with a toy model and small buffers, each of them a block."""
    monkeypatch.setattr(resume, "BUFFERS", 1)
    toy.save_model(tmp_path / "toys" / "de-en", {"max_target_positions": 12})  # translations end there
    toy.save_reverse_model(tmp_path / "toys" / "en-de")
    write(text="\n".join(LINES) + "\n")
    return partial(run_main, extract.main, "-m", FORWARD, "--buffer", 20, "--device", "cpu")


def put(lines: list[str]) -> None:
    """Write the input: both sides in a file, each in its own, and the source packed."""
    sides = [[line.split(" ||| ")[side] if " ||| " in line else line for line in lines] for side in (0, 1)]
    for name, some in (("text", lines), ("de", sides[0]), ("en", sides[1])):
        Path(name).write_text("\n".join(some) + "\n", encoding="utf-8", errors="surrogateescape")
    data = Path("de").read_bytes()
    Path("de.gz").write_bytes(gzip.compress(data))


def break_off(run: Callable[..., Result], at: int, *arguments: object, lines: list[str] = LINES) -> None:
    """A run that stops at a line that is no text."""
    put([*lines[: at - 1], "\udcff", *lines[at:]])
    stdin = Path("text").read_bytes()
    failed(run("-q", *arguments, "--resume", stdin=stdin), f"line {at}: not UTF-8")
    put(lines)


def tree(folder: Path) -> dict[str, bytes]:
    """The files of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def rewrite(path: Path, **changes: Any) -> None:
    """Change names of a JSON file."""
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **changes}), encoding="utf-8")


# The same bytes


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("links", ("text", "--print-scores")),
        ("links", ("-s", "de", "-t", "en", "-f", "naacl", "--print-scores")),
        ("links.gz", ("text", "-f", "giza")),
        ("links.xz", ("--null", "mask")),  # stdin, read again from its start
        (
            "links.gz",
            ("text", "--reverse-model", REVERSE, "--symmetrize", "union", "-f", "jsonl", "--position", "both"),
        ),
        ("links.zst", ("text", "--print-scores")),
        ("links.xz", ("-s", "de.gz", "--translate", "--beam", 1, "-f", "jsonl")),
    ],
)
def test_stopped_it_goes_on_to_the_same_bytes(
    run: Callable[..., Result], tmp_path: Path, arguments: tuple[object, ...], name: str
) -> None:
    put(LINES)
    stdin = (tmp_path / "text").read_bytes()
    plain = run(*arguments, "-o", f"plain{name}", stdin=stdin)
    assert plain.code == 0
    before = set(os.listdir(tmp_path))
    for at in (95, 37, 130):  # 37 is before what is saved
        break_off(run, at, *arguments, "-o", name)
        assert set(os.listdir(tmp_path)) - before == {f"{name}.parts"}
    result = run(*arguments, "-o", name, "--resume", stdin=stdin)
    assert result.code == 0
    assert f"extract-align: 120 lines are done in {name}.parts\n" in result.err
    assert (tmp_path / name).read_bytes() == (tmp_path / f"plain{name}").read_bytes()
    assert set(os.listdir(tmp_path)) - before == {name, f"{name}.run.json"}
    again = run("-q", *arguments, "-o", name, "--resume", stdin=stdin)
    assert again == (0, b"", "")
    counts, sign = result.err.splitlines()[-2:]
    assert counts.rpartition(", ")[0] == plain.err.splitlines()[-2].rpartition(", ")[0]
    assert sign == plain.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("buffer", "blank", "options"),
    [
        *((buffer, blank, ()) for buffer, blank in ((20, (0, 40)), (20, (19, 40)), (60, (0, 60)), (60, (0, 41)))),
        (20, (0, 40), ("--position", "both")),
        (20, (0, 40), ("--reverse-model", REVERSE)),
    ],
)
def test_a_choice_that_is_still_open_comes_out_the_same(
    run: Callable[..., Result], tmp_path: Path, blank: tuple[int, int], options: tuple[str, ...], buffer: int
) -> None:
    """Blank first buffers choose nothing, and those of under 50 pairs what the next run must keep, not choose anew."""
    lines = ["" if blank[0] <= n < blank[1] else line for n, line in enumerate(LINES)]
    put(lines)
    some = ("text", *options, "--print-scores", "--buffer", buffer)
    plain = run(*some, "-o", "plain")
    for at in (65, 125):
        break_off(run, at, *some, "-o", "links", lines=lines)
    result = run(*some, "-o", "links", "--resume")
    assert (tmp_path / "links").read_bytes() == (tmp_path / "plain").read_bytes()
    choices = [line for line in plain.err.splitlines() if ": layer" in line or ": forward" in line]
    reasons = [line.partition("; `extract-align models describe")[0] for line in choices]
    assert reasons
    assert all(line in result.err for line in reasons)
    assert result.err.splitlines()[-1] == plain.err.splitlines()[-1]


def test_lines_that_were_added_are_aligned_too(run: Callable[..., Result], tmp_path: Path) -> None:
    break_off(run, 95, "text", "-o", "links")
    put([*LINES, *LINES])
    assert run("-q", "text", "-o", "links", "--resume").code == 0
    assert run("-q", "text", "-o", "plain").code == 0
    assert (tmp_path / "links").read_bytes() == (tmp_path / "plain").read_bytes()


def test_a_full_disk_is_resumed_from(
    run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("-q", "text", "-o", "plain").code == 0
    for at in (1, 3, 4, 16):  # the last one is of the joined blocks
        calls: list[int] = []

        def full(descriptor: int, at: int = at, calls: list[int] = calls) -> None:
            calls.append(descriptor)
            if len(calls) == at:
                raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            failed(run("-q", "text", "-o", "links", "--resume"), "error: links", ": cannot write: No space left")
        assert not (tmp_path / "links").exists()
        assert run("-q", "text", "-o", "links", "--resume").code == 0
        assert (tmp_path / "links").read_bytes() == (tmp_path / "plain").read_bytes()
        os.unlink("links")


def test_the_last_block_with_a_record_counts(run: Callable[..., Result], tmp_path: Path) -> None:
    break_off(run, 95, "text", "-o", "links")
    parts = tmp_path / "links.parts"
    os.unlink(parts / "00004.json")  # killed before the record was there
    (parts / "00004").write_bytes(b"half a li")
    Path(temporary_name(str(parts / "00004.json"))).write_bytes(b"half a li")
    result = run("text", "-o", "links", "--resume")
    assert "60 lines are done in links.parts" in result.err
    run("-q", "text", "-o", "plain")
    assert (tmp_path / "links").read_bytes() == (tmp_path / "plain").read_bytes()
    assert not parts.exists()


def test_stopped_before_anything_was_saved(run: Callable[..., Result], tmp_path: Path) -> None:
    break_off(run, 95, "text", "-o", "links")
    for path in (tmp_path / "links.parts").glob("0*.json"):
        path.unlink()
    assert run("-q", "text", "-o", "links", "--resume").code == 0
    run("-q", "text", "-o", "plain")
    assert (tmp_path / "links").read_bytes() == (tmp_path / "plain").read_bytes()
    (tmp_path / "next.parts").mkdir()
    Path(temporary_name(str(tmp_path / "next.parts" / "run.json"))).touch()  # killed before the first file was there
    assert run("-q", "text", "-o", "next", "--resume").code == 0
    assert (tmp_path / "next").read_bytes() == (tmp_path / "plain").read_bytes()
    assert not (tmp_path / "next.parts").exists()


def test_a_run_that_has_not_begun_leaves_nothing(run: Callable[..., Result], tmp_path: Path) -> None:
    before = set(os.listdir(tmp_path))
    failed(run("text", "-o", "links", "--resume", "-m", "no/such/model"), "no/such/model: no such file")
    assert set(os.listdir(tmp_path)) == before


def test_a_block_has_several_buffers(run: Callable[..., Result], tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(resume, "BUFFERS", 3)
    break_off(run, 95, "text", "-o", "links")
    assert set(tree(tmp_path / "links.parts")) == {"run.json", "00001", "00001.json"}
    assert "60 lines are done in links.parts" in run("text", "-o", "links", "--resume").err
    run("-q", "text", "-o", "plain")
    assert (tmp_path / "links").read_bytes() == (tmp_path / "plain").read_bytes()


def test_a_link_and_a_long_name(run: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to("elsewhere/links")
    long = "x" * 250
    for name in ("link", long):
        break_off(run, 95, "text", "-o", name)
        assert run("-q", "text", "-o", name, "--resume").code == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / long).read_bytes() == (tmp_path / "elsewhere" / "links").read_bytes()
    assert sorted(os.listdir(tmp_path / "elsewhere")) == ["links", "links.run.json"]


def test_files_of_the_users_among_the_blocks_are_left_alone(run: Callable[..., Result], tmp_path: Path) -> None:
    parts = tmp_path / "links.parts"
    parts.mkdir()
    (parts / ".00001.part").write_bytes(b"mine")
    failed(run("-q", "text", "-o", "links", "--resume"), "links.parts: is in the way: remove it")
    assert tree(parts) == {".00001.part": b"mine"}
    shutil.rmtree(parts)
    break_off(run, 95, "text", "-o", "links")
    (parts / ".00001.part").write_bytes(b"mine")
    assert run("-q", "text", "-o", "links", "--resume").code == 0
    assert tree(parts) == {".00001.part": b"mine"}


def test_no_input_is_a_file_that_resuming_writes(run: Callable[..., Result], tmp_path: Path) -> None:
    break_off(run, 95, "text", "-o", "links")
    before = tree(tmp_path / "links.parts")
    (tmp_path / "links.run.json").write_bytes(b"{}")
    for name in ("links.parts/00001", "./links.run.json"):
        result = run("-q", "text", name, "-o", "links", "--resume")
        assert (result.code, f"--resume writes the input {name} itself: give it another name" in result.err) == (
            2,
            True,
        )
    assert tree(tmp_path / "links.parts") == before


# The same command once more


def test_after_success_there_is_nothing_to_do(run: Callable[..., Result], tmp_path: Path) -> None:
    name = "links.gz"
    break_off(run, 95, "text", "-o", name)
    parts, copy = tmp_path / f"{name}.parts", tmp_path / "copy"
    shutil.copytree(parts, copy)
    assert run("-q", "text", "-o", name, "--resume").code == 0
    files = {file.name: file.read_bytes() for file in tmp_path.glob("links*")}
    assert set(files) == {name, f"{name}.run.json"}
    for gone in ((), ("00004.json", "00004"), ("run.json", *sorted(os.listdir(copy)))):  # killed as blocks were removed
        shutil.copytree(copy, parts)
        for part in gone:
            (parts / part).unlink(missing_ok=True)
        result = run("text", "-o", name, "--resume")
        assert (result.code, result.out) == (0, b"")
        assert result.err.endswith(f"extract-align: {name} is there already: nothing to do\n")
        assert not parts.exists()
    os.utime("text", (time.time() + 100,) * 2)
    assert run("-q", "text", "-o", name, "--resume") == (0, b"", "")
    assert run("-q", "-o", name, "--resume", stdin=(tmp_path / "text").read_bytes()) == (0, b"", "")
    assert {file.name: file.read_bytes() for file in tmp_path.glob("links*")} == files


def test_an_unchanged_file_is_not_read_again(
    run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments in (("-s", "de", "-t", "en"), ("-s", "de.gz", "--translate", "--beam", 1)):
        put(LINES)
        out = f"links{len(arguments)}"
        assert run("-q", *arguments, "-o", out, "--resume").code == 0
        with monkeypatch.context() as patch:
            patch.setattr(resume.DigestedPairs, "__next__", None)
            assert run("-q", *arguments, "-o", out, "--resume").code == 0
        for name in ("text", "de", "de.gz"):
            os.unlink(name)
        failed(run("-q", *arguments, "-o", out, "--resume"), "No such file")


def test_a_file_that_appeared_next_to_blocks_is_left_alone(run: Callable[..., Result], tmp_path: Path) -> None:
    assert run("-q", "text", "-o", "links", "--resume").code == 0
    os.unlink("links")  # its record stays
    break_off(run, 95, "text", "-o", "links", "--print-scores")
    before = tree(tmp_path / "links.parts")
    for content in (b"my own", b""):
        (tmp_path / "links").write_bytes(content)
        for options in (("--print-scores",), ()):
            result = run("-q", "text", "-o", "links", "--resume", *options)
            failed(result, f"error: links has {len(content)} bytes, and links.run.json says ")
            assert (tmp_path / "links").read_bytes() == content
    os.unlink("links.run.json")
    failed(run("-q", "text", "-o", "links", "--resume"), "error: links is there, and no record of the run that made it")
    assert tree(tmp_path / "links.parts") == before


def test_killed_as_the_result_is_put_in_place(
    run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("-q", "text", "-o", "plain").code == 0
    replace = os.replace
    for after in (False, True):

        def killed(source: str, target: str, after: bool = after) -> None:
            if target != "links" or after:
                replace(source, target)
            if target == "links":
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", killed)
            patch.setattr(resume, "_remove_parts", lambda folder: None)
            assert run("-q", "text", "-o", "links", "--resume").code == 130
        assert (tmp_path / "links").exists() == after
        assert {"links.parts", "links.run.json"} <= set(os.listdir(tmp_path))
        assert run("-q", "text", "-o", "links", "--resume") == (0, b"", "")
        assert (tmp_path / "links").read_bytes() == (tmp_path / "plain").read_bytes()
        assert not (tmp_path / "links.parts").exists()
        os.unlink("links")


def test_blocks_of_another_run_stay_next_to_a_result(run: Callable[..., Result], tmp_path: Path) -> None:
    assert run("-q", "text", "-o", "links", "--resume").code == 0
    os.rename("links", "aside")
    break_off(run, 95, "text", "-o", "links", "--print-scores")
    before = tree(tmp_path / "links.parts")
    os.rename("aside", "links")
    assert run("-q", "text", "-o", "links", "--resume") == (0, b"", "")
    assert tree(tmp_path / "links.parts") == before


def test_a_calibration_that_was_changed_is_another_run(run: Callable[..., Result], tmp_path: Path) -> None:
    """It decides where short texts are read, and 20 lines are one."""
    stored = tmp_path / "toys" / "de-en" / "model.toml"

    def calibrate(layer: int) -> None:
        stored.write_text(f"[calibration.input]\nnorm = {{ layer = {layer}, head = 1 }}\n")

    calibrate(1)
    auto = ("-q", "text", "-o", "links", "--resume", "--position", "input", "--layer", "auto", "--head", "auto")
    assert run(*auto).code == 0
    calibrate(2)
    changed = "is of another run (calibration was input layer 1, head 1, and is input layer 2, head 1): remove links"
    failed(run(*auto), f"links {changed}")
    assert (run(*auto[:-4], "--layer", 1, "--head", 2, "-o", "asked").code) == 0
    calibrate(1)
    assert run(*auto[:-4], "--layer", 1, "--head", 2, "-o", "asked") == (0, b"", "")
    os.unlink("links")
    break_off(run, 95, "text", "-o", "links", *auto[5:])
    calibrate(2)
    failed(run(*auto), f"links.parts {changed}.parts to start again")


def test_a_result_that_was_changed_is_left_alone(run: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "links").write_bytes(b"other")
    message = "links is there, and no record of the run that made it: remove links to start again"
    failed(run("-q", "text", "-o", "links", "--resume"), message)
    os.unlink("links")
    assert run("-q", "text", "-o", "links", "--resume").code == 0
    links = tmp_path / "links"
    whole = links.read_bytes()
    failed(run("-q", "text", "-o", "links", "--resume", "--layer", 1), "links is of another run (settings was layer:")
    links.write_bytes(b"other")
    message = f"links has 5 bytes, and links.run.json says {len(whole):,}: remove links to start again"
    failed(run("-q", "text", "-o", "links", "--resume"), message)
    links.write_bytes(whole.replace(b"0", b"1", 1))
    message = "links is not what it was when links.run.json was written: remove links to start again"
    failed(run("-q", "text", "-o", "links", "--resume"), message)
    os.unlink(links)
    assert run("-q", "text", "-o", "links", "--resume").code == 0
    assert links.read_bytes() == whole


def test_two_sides_are_not_two_texts(run: Callable[..., Result], tmp_path: Path) -> None:
    texts, sides = ("text", "de"), ("-s", "text", "-t", "de")
    for name in texts:
        (tmp_path / name).write_bytes(b"das\tthe\n" * 50)
    for first, then, message in ((texts, sides, "lines, and is files"), (sides, texts, "files, and is lines")):
        assert run("-q", *first, "-o", "links", "--resume").code == 0
        before = (tmp_path / "links").read_bytes()
        message = f"links is of another run (sides was {message}): remove links to start again"
        failed(run("-q", *then, "-o", "links", "--resume"), message)
        assert (tmp_path / "links").read_bytes() == before
        os.unlink("links")


def test_a_result_of_another_input_is_left_alone(run: Callable[..., Result], tmp_path: Path) -> None:
    put(LINES)

    def again() -> Result:
        return run("-q", "-o", "links", "--resume", stdin=Path("text").read_bytes())

    assert again().code == 0
    put([*LINES, "das ||| the"])
    failed(again(), "error: stdin has 131 lines, and links is of 130: remove links to start again")
    put([LINES[1], LINES[0], *LINES[2:]])
    failed(again(), "error: stdin: the lines are not those that links is of: remove links to start again")
    put(LINES)
    assert again().code == 0


def test_a_run_on_another_device_is_not_gone_on_with(
    run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = load_aligner

    def elsewhere(*arguments: Any) -> Any:
        aligner: Any = load(*arguments)
        aligner.forward.recorder.device = "cuda:0"
        return aligner

    break_off(run, 95, "text", "-o", "links")
    monkeypatch.setattr(extract, "load_aligner", elsewhere)
    message = "links.parts is of another run (device was cpu, and is cuda:0): remove links.parts to start again"
    failed(run("-q", "text", "-o", "links", "--resume"), message)


def test_models_are_warned_about_once(run: Callable[..., Result]) -> None:
    options = ("text", "-o", "links", "--reverse-model", FORWARD)
    break_off(run, 95, *options)
    result = run(*options, "--resume")
    assert (result.code, result.err.count("does it translate en to de?")) == (0, 1)


# What is not gone on with


def test_another_run(run: Callable[..., Result], tmp_path: Path) -> None:
    break_off(run, 95, "text", "-o", "links", "--print-scores")
    before = tree(tmp_path / "links.parts")
    for options, message in (
        ((), "scores was True, and is False"),
        (("--print-scores", "--buffer", 10), "buffer was 20, and is 10"),
        (("--print-scores", "--bad-lines", "blank"), "bad-lines was stop, and is blank"),
        (("--print-scores", "--layer", 1), "(settings was layer:auto, and is layer:1)"),
        (("--print-scores", "--reverse-model", REVERSE), "|soft:0.5"),
    ):
        result = run("-q", "text", "-o", "links", "--resume", *options)
        failed(result, "links.parts is of another run (", message, "remove links.parts to start again")
        assert tree(tmp_path / "links.parts") == before
    shutil.rmtree("links.parts")
    assert run("-q", "text", "-o", "links", "--resume").code == 0


def test_another_input(run: Callable[..., Result], tmp_path: Path) -> None:
    break_off(run, 95, "text", "-o", "links")
    put([LINES[0] + " !", *LINES[1:]])
    message = "text: the first 80 lines are not those that links.parts is of: remove links.parts to start again"
    failed(run("text", "-o", "links", "--resume"), message)
    put([LINES[1], LINES[0], *LINES[2:]])
    failed(run("text", "-o", "links", "--resume"), message)
    put(LINES[:79])
    failed(run("text", "-o", "links", "--resume"), "text has 79 lines, and links.parts is of the first 80: remove")


@pytest.mark.parametrize("garbage", [b"", b'{"run": 3}\n', b"[" * 90_000])
def test_a_folder_that_is_not_of_a_run(run: Callable[..., Result], tmp_path: Path, garbage: bytes) -> None:
    parts = tmp_path / "links.parts"
    parts.mkdir()
    (parts / "00001").write_bytes(b"my own")
    (parts / "run.json").write_bytes(garbage)
    before = tree(parts)
    failed(run("text", "-o", "links", "--resume"), "error: links.parts: is in the way: remove it")
    assert tree(parts) == before


def place(*cells: tuple[int, int | str] | None) -> dict[str, Any]:
    """A choice as the journal has it, with the cells of the input and of the output position."""
    told = [cell and {"layer": cell[0], "head": cell[1]} for cell in cells]
    return {"place": dict(zip(("input", "output"), told, strict=True)), "reason": "x", "consistency": None}


@pytest.mark.parametrize(
    "chosen", [[place((1, 1), None), place((1, 1), None)], [place((9, 1), None)], [place((1, 1), (9, "all"))], []]
)
def test_choices_that_cannot_be(run: Callable[..., Result], tmp_path: Path, chosen: Any) -> None:
    break_off(run, 95, "text", "-o", "links")
    note = tmp_path / "links.parts" / "run.json"
    rewrite(note, choices=chosen)
    failed(run("text", "-o", "links", "--resume"), "links.parts", "remove ")
    for path in note.parent.glob("0*.json"):
        rewrite(path, run={"run.json": digest_of(note)})
    failed(run("text", "-o", "links", "--resume"), "links.parts", "remove ")


def test_a_record_that_does_not_fit_its_block(run: Callable[..., Result], tmp_path: Path) -> None:
    break_off(run, 95, "text", "-o", "links")
    parts = tmp_path / "links.parts"
    records = {n: json.loads((parts / f"0000{n}.json").read_bytes()) for n in (3, 4)}
    ((name, size, digest),) = records[4]["outputs"]
    for changes, message in (
        ({"rows": 10}, "00004.json is not a record of this program, or is damaged"),
        ({"digest": records[3]["digest"]}, "the first 80 lines are not those that links.parts is of"),
        ({"outputs": [["../text", size, digest]]}, "00004.json is not a record of this program, or is damaged"),
        ({"outputs": [[name, size - 3, digest]]}, "links.parts/00004 is not what 00004.json says"),
        ({"outputs": [[name, size, records[3]["outputs"][0][2]]]}, "links.parts/00004 is not what 00004.json says"),
        ({"run": {"run.json": digest}}, "00004.json is not of the run in run.json"),
    ):
        (parts / "00004.json").write_text(json.dumps({**records[4], **changes}), encoding="utf-8")
        failed(run("-q", "text", "-o", "links", "--resume"), message, ": remove links.parts to start again")
    (parts / "00004.json").write_text(json.dumps(records[4]), encoding="utf-8")
    for one, other in (("00001", "00002"), ("00001.json", "00002.json")):  # whole, and in the wrong place
        before = tree(parts)
        (parts / one).write_bytes(before[other])
        failed(run("-q", "text", "-o", "links", "--resume"), "remove links.parts to start again")
        (parts / one).write_bytes(before[one])
    assert run("-q", "text", "-o", "links", "--resume").code == 0


def test_a_block_with_another_content(run: Callable[..., Result], tmp_path: Path) -> None:
    arguments = ("-q", "text", "-o", "links", "--resume")
    break_off(run, 95, "text", "-o", "links")
    block = tmp_path / "links.parts" / "00002"
    output = block.read_bytes()
    message = "links.parts/00002 is not what 00002.json says: remove links.parts to start again"
    for content in (b"x" + output[1:], b"", output * 2):
        block.write_bytes(content)
        failed(run(*arguments), message)
        assert block.read_bytes() == content
    block.unlink()
    message = "links.parts/00002 is missing, or not a regular file: remove links.parts to start again"
    failed(run(*arguments), message)
    for make in (os.mkfifo, lambda path: path.symlink_to("../copy"), Path.mkdir):
        (tmp_path / "copy").write_bytes(output)
        make(block)
        failed(run(*arguments), message)
        block.rmdir() if block.is_dir() else block.unlink()
    block.write_bytes(output)
    assert run(*arguments).code == 0


def test_a_sparse_block_is_not_read(
    run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_off(run, 95, "text", "-o", "links")
    os.truncate("links.parts/00001", 1 << 30)
    monkeypatch.setattr(resume, "COPIED", "none of it")
    failed(run("-q", "text", "-o", "links", "--resume"), "links.parts/00001 is not what 00001.json says")


PLACES: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "link": lambda path: path.symlink_to("../mine"),
    "dangling link": lambda path: path.symlink_to("../nowhere"),
    "hard link": lambda path: os.link("mine", path),
}


@pytest.mark.parametrize("kind", PLACES)
def test_nothing_outside_the_folder_of_blocks_is_written(run: Callable[..., Result], tmp_path: Path, kind: str) -> None:
    arguments = ("-q", "text", "-o", "links", "--resume", "--bad-lines", "blank", "--bad-lines-file", "bad")
    assert run("-q", "text", "-o", "plain").code == 0
    mine = json.dumps({"settings": {}, "choices": [], "signature": ""}).encode()
    (tmp_path / "mine").write_bytes(mine)
    parts = tmp_path / "links.parts"
    parts.mkdir()
    (parts / "run.json").write_bytes(mine)
    for name in ("00001", "00001.bad", "00002", "00003.json"):
        PLACES[kind](parts / name)
    assert run(*arguments).code == 0
    assert (tmp_path / "mine").read_bytes() == mine
    assert not (tmp_path / "nowhere").exists()
    assert (tmp_path / "links").read_bytes() == (tmp_path / "plain").read_bytes()
    assert not parts.exists()


def test_a_record_that_is_a_link_is_refused(run: Callable[..., Result], tmp_path: Path) -> None:
    assert run("-q", "text", "-o", "links", "--resume").code == 0
    os.unlink("links")
    os.rename("links.run.json", "mine")
    mine = (tmp_path / "mine").read_bytes()
    (tmp_path / "links.run.json").symlink_to("mine")
    failed(run("-q", "text", "-o", "links", "--resume"), "error: links.run.json: is in the way: remove it")
    os.unlink("links.run.json")
    break_off(run, 95, "text", "-o", "links")
    os.rename("links.parts/run.json", "mine")
    mine = (tmp_path / "mine").read_bytes()
    (tmp_path / "links.parts" / "run.json").symlink_to("../mine")
    failed(run("-q", "text", "-o", "links", "--resume"), "error: links.parts: is in the way: remove it")
    assert (tmp_path / "mine").read_bytes() == mine


def test_a_block_that_is_changed_meanwhile(
    run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join = resume.Blocks.join

    def late(self: resume.Blocks, *arguments: Any) -> Any:
        (tmp_path / "links.parts" / "00002").write_bytes(b"0-0\n" * 20)
        return join(self, *arguments)

    monkeypatch.setattr(resume.Blocks, "join", late)
    failed(run("-q", "text", "-o", "links", "--resume"), "links.parts/00002 is not what 00002.json says")
    assert not (tmp_path / "links").exists()


def test_whatever_bytes_are_changed_no_other_output_comes_of_it(run: Callable[..., Result], tmp_path: Path) -> None:
    arguments = ("-q", "text", "-o", "links", "--resume")
    break_off(run, 95, "text", "-o", "links")
    parts = tmp_path / "links.parts"
    before = tree(parts)
    assert run(*arguments).code == 0
    expected = (tmp_path / "links").read_bytes()
    draw, codes = random.Random(3), []
    for _ in range(60):
        for path in ("links", "links.run.json"):
            (tmp_path / path).unlink(missing_ok=True)
        shutil.rmtree(parts, ignore_errors=True)
        parts.mkdir()
        for name in sorted(before):
            data = bytearray(before[name])
            for _ in range(draw.choice((0, 0, 0, 0, 0, 0, 1, 3))):
                at, length = draw.randrange(max(1, len(data))), draw.choice((1, 1, 2, 50))
                part = {
                    "flip": bytes(byte ^ draw.randrange(1, 256) for byte in data[at : at + length]),
                    "cut": b"",
                    "insert": draw.randbytes(length) + data[at : at + length],
                    "digits": bytes(draw.choice(b"0123456789") if chr(byte).isdigit() else byte for byte in data[at:]),
                    "repeat": data[at : at + length] * 2,
                }[draw.choice(("flip", "cut", "insert", "digits", "repeat"))]
                data[at : at + length] = part[:length] if draw.random() < 0.5 else part
            (parts / name).write_bytes(data)
        result = run(*arguments)
        codes.append(result.code)
        if result.code:
            failed(result, "remove ")
            assert not (tmp_path / "links").exists()
        else:
            assert (tmp_path / "links").read_bytes() == expected
    assert {*codes} == {0, 1}


def test_what_is_in_the_way_is_named(run: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    for make in (os.mkfifo, Path.touch, lambda path: path.symlink_to("elsewhere")):
        make(tmp_path / "links.parts")
        failed(run("text", "-o", "links", "--resume"), "error: links.parts: is in the way: remove it")
        os.unlink(tmp_path / "links.parts")
    assert not [name for name in os.listdir(tmp_path) if "links" in name]


@pytest.mark.parametrize("other", [b"my own", b'{"run": {"a": {}}}\n', b"[" * 90_000])
def test_files_of_the_users_own_are_left_alone(run: Callable[..., Result], tmp_path: Path, other: bytes) -> None:
    (tmp_path / "links.run.json").write_bytes(other)
    for result in (False, True):
        if result:
            (tmp_path / "links").touch()
        failed(run("-q", "text", "-o", "links", "--resume"), "error: links.run.json: is in the way: remove it")
        failed(run("-q", "no/text", "-o", "links", "--resume"), "no/text: No such file")
        assert (tmp_path / "links.run.json").read_bytes() == other
    os.unlink("links.run.json")
    os.mkfifo("links.run.json")
    failed(run("-q", "text", "-o", "links", "--resume"), "error: links.run.json: is in the way: remove it")


def test_other_files_among_the_blocks_stay(run: Callable[..., Result], tmp_path: Path) -> None:
    break_off(run, 95, "text", "-o", "links")
    (tmp_path / "links.parts" / "notes").write_text("my own", encoding="utf-8")
    assert run("-q", "text", "-o", "links", "--resume").code == 0
    assert tree(tmp_path / "links.parts") == {"notes": b"my own"}


def test_a_folder_cannot_flood_the_message(run: Callable[..., Result], tmp_path: Path) -> None:
    break_off(run, 95, "text", "-o", "links")
    flood = {"a\nb\x1b[2J" * 100: "c\nd" * 1000, **{f"name{n}": n for n in range(2000)}}
    rewrite(tmp_path / "links.parts" / "run.json", settings=flood)
    result = run("-q", "text", "-o", "links", "--resume")
    failed(result, "links.parts is of another run (", " more): remove links.parts to start again")
    assert result.err.count("\n") == 1
    assert len(result.err) < 3000


def test_a_plain_run_and_one_to_resume_do_not_mix(run: Callable[..., Result], tmp_path: Path) -> None:
    with open_output("links") as out:
        out.write(b"of a plain run")
        failed(run("-q", "text", "-o", "links", "--resume"), "error: links: another run is still writing it")
    assert (tmp_path / "links").read_bytes() == b"of a plain run"
    os.unlink("links")
    with resume.open_blocks("links", []) as blocks:
        failed(run("-q", "text", "-o", "links"), "error: links: another run is still writing it")
        blocks.begin({}, resume.DigestedPairs(iter(()), str), "text", 20)
    assert (tmp_path / "links").read_bytes() == b""


def test_a_plain_run_leaves_an_interrupted_one_alone(run: Callable[..., Result], tmp_path: Path) -> None:
    break_off(run, 95, "text", "-o", "links")
    before = tree(tmp_path / "links.parts")
    assert run("-q", "text", "-o", "links").code == 0
    assert tree(tmp_path / "links.parts") == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "-"), "--resume requires -o FILE"),
        (("-o", "/dev/null"), "--resume needs an ordinary file, and /dev/null is not one"),
        (("-o", "."), "-o . is a folder: `extract-align jobs FILE … -o .` writes a file for each FILE"),
    ],
)
def test_wrong_usage_is_exit_code_2(run_main: Callable[..., Result], arguments: tuple[str, ...], message: str) -> None:
    result = run_main(extract.main, "--resume", *arguments)
    assert (result.code, result.out) == (2, b"")
    assert message in result.err
