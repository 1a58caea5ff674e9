"""Models of several languages: two directions with one model, tags in the text, codes, prefixes."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from align import ModelOptions, Pair, TextWarning, load, two_way
from align.cli import extract
from align.core.errors import ModelError
from align.models.huggingface import families
from align.models.huggingface import model as loading
from tests.cli.conftest import Run, run_main
from tests.hub_models import find_model, write_model
from tests.hugging import change

__all__ = ["run_main"]

TEXT = "das ist ein Satz ||| this is a sentence\nja sagte sie ||| yes she said\n"
NLLB, M2M100 = "facebook/nllb-200-distilled-600M", "facebook/m2m100_418M"
MBART50, OPUS_EN_PT = "facebook/mbart-large-50-many-to-many-mmt", "Helsinki-NLP/opus-mt-tc-big-en-pt"
MADLAD, T5 = "google/madlad400-3b-mt", "google-t5/t5-small"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A small folder like that of a published model."""
    root = tmp_path_factory.mktemp("hub")

    def folder(name: str) -> Path:
        place = root / name.replace("/", "--")
        if not place.exists():
            write_model(find_model(name).with_pieces(1200), place)
        return place

    return folder


@pytest.fixture
def copied(hub: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    """A copy of such a folder that may be changed."""
    return lambda name: Path(shutil.copytree(hub(name), tmp_path / name.replace("/", "--")))


def encode(folder: Path, source: str, **options: Any) -> Any:
    recorder = load(folder, options=ModelOptions(**options)).forward.recorder
    return recorder.encode(Pair(tuple(source.split(" ")), ("x",), 1))


@pytest.mark.parametrize("name", [NLLB, M2M100, MBART50])
def test_one_model_for_both_directions(
    name: str, hub: Callable[[str], Path], run_main: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The languages are swapped, the weights loaded once; links are those of two models loaded by hand."""
    made, folder = find_model(name), hub(name)
    built = Mock(wraps=families.transformer_of)
    monkeypatch.setattr(loading, "transformer_of", built)
    languages = ("--source-lang", made.source, "--target-lang", made.target)
    result = run_main(extract.main, "-m", folder, *languages, "--reverse-model", folder, stdin=TEXT)
    assert result.code == 0, result.err
    assert f"check that it translates {made.target} to {made.source}" not in result.err
    lines = [line for line in result.err.splitlines() if "; text: " in line]
    assert f"huggingface:{made.source}-{made.target}@" in lines[0]
    assert f"huggingface:{made.target}-{made.source}@" in lines[1]
    assert [line.endswith("; languages: those of the forward model, swapped") for line in lines] == [False, True]
    assert built.call_count == 1
    forward: Any = load(folder, options=ModelOptions(source_lang=made.source, target_lang=made.target))
    reverse: Any = load(folder, options=ModelOptions(source_lang=made.target, target_lang=made.source))
    assert forward.forward.recorder.transformer is reverse.forward.recorder.transformer
    assert forward.forward.recorder.name != reverse.forward.recorder.name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TextWarning)
        pairs: list[Any] = [line.split(" ||| ") for line in TEXT.splitlines()]
        expected = [str(alignment) for alignment in two_way(forward, reverse)(pairs)]
    assert result.out.decode().splitlines() == expected


def test_a_folder_whose_files_name_the_forward_direction(copied: Callable[[str], Path], run_main: Run) -> None:
    """They name it for both: model.toml, or a tokenizer that was saved while translating forward."""
    folder = copied(NLLB)
    change(folder, "tokenizer_config.json", src_lang="deu_Latn", tgt_lang="eng_Latn")
    for _ in range(2):
        result = run_main(extract.main, "-m", folder, "--reverse-model", folder, stdin=TEXT)
        assert result.code == 0, result.err
        assert "huggingface:eng_Latn-deu_Latn@" in result.err
        assert "check that it translates" not in result.err
        (folder / "model.toml").write_text('source = "deu_Latn"\ntarget = "eng_Latn"\n')


def test_a_language_that_the_tokenizer_names_in_another_code(
    hub: Callable[[str], Path], copied: Callable[[str], Path]
) -> None:
    """As in opus-mt-tc-big-en-pt: tokenizer_config.json says pt, and the pieces are por and pob."""
    message = r"has no language pt, which tokenizer_config\.json names: give target_lang, one of fra, pob, por"
    with pytest.raises(ModelError, match=message):
        load(hub(OPUS_EN_PT))
    silent = copied(NLLB)
    change(silent, "tokenizer_config.json", src_lang=None, tgt_lang=None)
    with pytest.raises(ModelError, match=r"give source_lang, one of its 202 languages, such as .*deu_Latn"):
        load(silent)


def test_a_tag_in_the_source_is_the_target_language_of_its_line(hub: Callable[[str], Path]) -> None:
    folder = hub(OPUS_EN_PT)
    words = "the cat ist alt"
    plain = {code: encode(folder, words, target_lang=code) for code in ("por", "pob", "fra")}
    assert len({piece.source[0] for piece in plain.values()}) == 3
    for code, expected in plain.items():
        tagged = encode(folder, f">>{code}<< {words}", target_lang="por")
        assert list(tagged.source) == list(expected.source)
        assert tagged.source_words[0] == -1
        assert [word - 1 for word in tagged.source_words if word >= 0] == [n for n in expected.source_words if n >= 0]
        assert tagged.words[0] == expected.words[0] + 1
        glued = encode(folder, f">>{code}<<{words}", target_lang="por")
        assert (list(glued.source), list(glued.source_words)) == (list(expected.source), list(expected.source_words))
    inside = encode(folder, f"{words} >>fra<<", target_lang="por")
    assert plain["fra"].source[0] not in inside.source
    recorder = load(folder, options=ModelOptions(target_lang="por")).forward.recorder
    with pytest.warns(TextWarning, match="the model has no language >>xyz<<: this tag is read as a word"):
        unknown = recorder.encode(Pair((">>xyz<<", "the"), ("x",), 1))
    assert 0 in unknown.source_words
    assert unknown.source[0] == plain["por"].source[0]


@pytest.mark.parametrize(
    ("options", "source"),
    [
        ({"target_lang": "de"}, "the cat"),
        ({"source_prefix": "<2de>"}, "the cat"),
        ({"target_lang": "fr"}, "<2de>the cat"),
    ],
)
def test_target_languages_of_madlad(hub: Callable[[str], Path], options: dict[str, str], source: str) -> None:
    folder = hub(MADLAD)
    own = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    tag = next(token["id"] for token in own["added_tokens"] if token["content"] == "<2de>")
    pieces = encode(folder, source, **options)
    assert (pieces.source[0], pieces.source_words[0]) == (tag, -1)
    assert list(pieces.source) == list(encode(folder, "the cat", target_lang="de").source)
    with pytest.raises(ModelError, match="no target language is given: give target_lang, one of de, en, fr"):
        load(folder)


def test_a_t5_without_a_prefix_is_warned_of_with_its_tasks(hub: Callable[[str], Path]) -> None:
    folder = hub(T5)
    for options in (ModelOptions(), ModelOptions(source_lang="de", target_lang="en")):
        with pytest.warns(
            TextWarning, match="without a prefix; this T5 has tasks with one, en to de, en to fr, en to ro: give"
        ):
            load(folder, options=options)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TextWarning)
        for options in (ModelOptions(source_lang="en", target_lang="de"), ModelOptions(source_prefix="")):
            load(folder, options=options)


@pytest.mark.parametrize("code", ["de", "__de__"])
def test_codes_of_m2m100_with_and_without_marks(hub: Callable[[str], Path], code: str) -> None:
    expected = encode(hub(M2M100), "das ist", source_lang="de", target_lang="en")
    assert encode(hub(M2M100), "das ist", source_lang=code, target_lang="en") == expected


def test_a_language_that_was_added_by_tuning(hub: Callable[[str], Path], copied: Callable[[str], Path]) -> None:
    folder = copied(NLLB)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    rows = 1200 + 206
    (folder / "added_tokens.json").write_text(json.dumps({"tyv_Cyrl": rows - 2, "<mask>": rows - 1, "<ph>": rows - 3}))
    pieces = encode(folder, "das ist", source_lang="tyv_Cyrl", target_lang="deu_Latn")
    assert pieces.source[0] == rows - 2
    assert rows - 3 not in encode(folder, "das <ph>", source_lang="deu_Latn", target_lang="eng_Latn").source
    decoder = {str(rows - 2): {"content": "tyv_Cyrl", "special": True}, str(rows - 3): {"content": "<ph>"}}
    (folder / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": decoder}))
    (folder / "added_tokens.json").unlink()
    assert encode(folder, "das ist", source_lang="tyv_Cyrl", target_lang="deu_Latn").source == pieces.source
    tagged = encode(folder, "das<ph> ist", source_lang="tyv_Cyrl", target_lang="deu_Latn")  # a token that is text
    assert list(tagged.source_words)[list(tagged.source).index(rows - 3)] == 0
