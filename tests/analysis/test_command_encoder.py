"""`extract-align analyse` on a BERT-like encoder: segments, and what only translation models have."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from align.analysis.commands.program import main
from tests.cli.conftest import Result
from tests.hugging_encoders import save_encoder

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder, and two files of segments."""
    folder = tmp_path_factory.mktemp("encoder")
    save_encoder(folder / "bert")
    (folder / "first").write_text("the old house .\nwe see\n\n")
    (folder / "second").write_text("it is big now\nthe house .\nwe\n")
    return folder


def test_segments_are_looked_at_together(folder: Path, run_main: Callable[..., Result]) -> None:
    text = ("-s", str(folder / "first"), "-t", str(folder / "second"))
    result = run_main(main, "mixing", "-m", str(folder / "bert"), "--threads", "1", *text, "-f", "json")
    assert result.code == 0, result.err
    assert result.err.startswith("extract-align analyse: huggingface:bert@")
    assert result.err.endswith(" on cpu (1 thread)\n")
    found = json.loads(result.out)
    assert found["signature"].startswith("analysis|mixing|huggingface:bert@")
    assert "|n:2|seed:1|" in found["signature"]
    pieces = {row["category"]: row["pieces"] for row in found["categories"]}
    assert pieces == {"[CLS]": 11 + 8, "rest": 11 * 7 + 8 * 4, ". and ,": 11 + 8, "[SEP]": 2 * 11 + 2 * 8}
    single = run_main(main, "mixing", "-q", "-m", str(folder / "bert"), "-s", str(folder / "first"), "-f", "json")
    pieces = {row["category"]: row["pieces"] for row in json.loads(single.out)["categories"]}
    assert pieces["[SEP]"] == 6 + 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--parts", "cross"], "has no cross-attention: there is attention of the encoder"),
        (["--source-lang", "de"], "an encoder alone, whose tokenizer says all of its text: leave --source-lang out"),
    ],
)
def test_what_an_encoder_has_not(
    folder: Path, run_main: Callable[..., Result], arguments: list[str], message: str
) -> None:
    command = ("mixing", "-m", str(folder / "bert"), "-s", str(folder / "first"), *arguments)
    result = run_main(main, *command)
    assert (result.code, result.out) == (1, b"")
    assert message in result.err


def test_a_damaged_folder(folder: Path, run_main: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    result = run_main(main, "mixing", "-m", str(tmp_path), "-s", str(folder / "first"))
    assert result.code == 1
    assert "no model.safetensors in this folder" in result.err


@pytest.mark.parametrize("command", ["ablate", "prune"])
def test_commands_for_translation_models_only(folder: Path, run_main: Callable[..., Result], command: str) -> None:
    text = ("-s", str(folder / "first"), "-t", str(folder / "second"))
    more = ("--heads", "1", "-o", "new") if command == "prune" else ("--bleu-lines", "0")
    result = run_main(main, command, "-m", str(folder / "bert"), *text, *more)
    assert (result.code, result.out) == (1, b"")
    assert f"{folder / 'bert'}: an encoder alone: this command needs a translation model\n" in result.err


@pytest.mark.parametrize("kind", ["gpt2", None])
def test_other_models(folder: Path, run_main: Callable[..., Result], tmp_path: Path, kind: str | None) -> None:
    shutil.copytree(folder / "bert", tmp_path / "other")
    (tmp_path / "other" / "config.json").write_text(json.dumps({"model_type": kind}))
    result = run_main(main, "mixing", "-m", str(tmp_path / "other"), "-s", str(folder / "first"))
    assert (result.code, result.out) == (1, b"")
    assert f"other: a model of type {kind or 'unknown'}: attention is read off these: bart, bert" in result.err
