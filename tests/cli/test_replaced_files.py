"""No output replaces a file that an option names, or one of a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from align.cli import extract
from tests import toy
from tests.cli.conftest import Run, Write

LAYOUTS = {
    "fairseq": ("checkpoint.pt", "model.toml", "dict.de.txt", "codes.de", "en.codes", "bpecodes", "source.codes"),
    "hugging face": ("config.json", "target_vocab.json", "vocab.json", "source.spm", "pytorch_model.bin", "merges.txt"),
    "causal": ("model.safetensors.index.json", "model-1.safetensors", "tokenizer.json", "chat_template.jinja"),
    "ctranslate2": ("model.bin", "config.json", "../source.spm", "../metadata.json", "../bpe.model"),
    "argos": ("model/model.bin", "model/shared_vocabulary.json", "sentencepiece.model", "metadata.json"),
    "marian": ("model.npz", "decoder.yml", "vocab.de.spm"),
    "firefox": ("model.deen.intgemm.alphas.bin", "srcvocab.deen.spm", "trgvocab.deen.spm"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_files_of_a_model(layout: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "model"
    for name in (*LAYOUTS[layout], "links", "notes.txt"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    parser = extract.build_parser()
    for name in LAYOUTS[layout]:
        with pytest.raises(SystemExit):
            parser.parse_command(["-m", str(folder), "text", "-o", str(folder / name)])
        assert "a file of " in capsys.readouterr().err
    for name in ("links", "notes.txt"):
        parser.parse_command(["-m", str(folder), "text", "-o", str(folder / name)])


@pytest.fixture
def model(write: Write, tmp_path: Path) -> None:
    toy.save_model(tmp_path / "toy")
    write(text="das haus ||| the house\nbad\n", links="0-0\n\n")


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize(
    ("main", "arguments", "message"),
    [
        (extract.main, "-m toy text -o toy/checkpoint.pt", "-o would replace toy/checkpoint.pt, a file of a model"),
        (
            extract.main,
            "-m toy text --ensemble links --bad-lines blank --bad-lines-file ./links",
            "--bad-lines-file would replace the input links",
        ),
        (extract.main, "-m toy text --ensemble links -o ./links", "-o would replace the input links"),
    ],
)
def test_they_are_refused(run_main: Run, main: Callable[[], int], arguments: str, message: str) -> None:
    before = {path: path.read_bytes() for path in Path().glob("**/*") if path.is_file()}
    result = run_main(main, *arguments.split())
    assert (result.code, message in result.err) == (2, True), result.err
    assert {path: path.read_bytes() for path in Path().glob("**/*") if path.is_file()} == before
