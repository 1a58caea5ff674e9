"""Text that a model reads before each source: T5's name of its task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from align import Aligner, Pair, load
from align.models.model_toml import ModelOptions
from tests import hugging
from tests.naive_hugging import own_tokenizers

pytest.importorskip("transformers")

PREFIX = "see das the now: "
PAIR = Pair(("das", "haus", "ist", "alt"), ("the", "house", "is", "old"), 1)


@pytest.fixture
def t5(tmp_path: Path) -> Path:
    """A tiny T5."""
    hugging.save_model("t5", tmp_path / "t5")
    return tmp_path / "t5"


def open_model(folder: Path, **options: Any) -> Aligner:
    return load(folder, options=ModelOptions(**options), layer=1, head="all", output_layer=1, output_head="all")


def with_tasks(folder: Path) -> None:
    """Tasks as the published T5 names them."""
    tasks = {"translation_en_to_de": {"prefix": PREFIX}, "summarization": {"prefix": "wir sehen: "}}
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "task_specific_params": tasks}))


def test_pieces_are_those_of_the_whole_text_and_links_count_the_users_words(t5: Path) -> None:
    aligner = open_model(t5, source_prefix=PREFIX)
    pieces = aligner.forward.recorder.encode(PAIR)
    tokenize, _ = own_tokenizers("t5", t5)
    expected = tokenize(PREFIX + " ".join(PAIR.source), add_special_tokens=False)["input_ids"]
    assert list(pieces.source) == [*expected, 2]
    plain = open_model(t5).forward.recorder.encode(PAIR)
    own = [(piece, word) for piece, word in zip(pieces.source, pieces.source_words, strict=True) if word >= 0]
    assert own == list(zip(plain.source, plain.source_words, strict=True))[:-1]
    assert all(0 <= i < 4 for i, _ in aligner.align(*["das haus ist alt", "the house is old"]))
    assert len(aligner.word_scores(PAIR.source, PAIR.target)[0]) == 5
    assert "after 'see das the now:'" in aligner.forward.recorder.text


def test_where_it_comes_from(t5: Path) -> None:
    with_tasks(t5)
    plain = open_model(t5)
    given = open_model(t5, source_prefix=PREFIX)
    assert given.forward.recorder.name != plain.forward.recorder.name
    configured = open_model(t5, source_lang="en", target_lang="de")
    assert configured.forward.recorder.encode(PAIR) == given.forward.recorder.encode(PAIR)
    for other in ({"source_lang": "de", "target_lang": "en"}, {"source_lang": "en", "target_lang": "de"}):
        assert open_model(t5, source_prefix="", **other).forward.recorder.encode(PAIR) == plain.forward.recorder.encode(
            PAIR
        )
    (t5 / "model.toml").write_text(f'source = "de"\ntarget = "en"\n\n[text]\nsource_prefix = "{PREFIX}"\n')
    assert open_model(t5).forward.recorder.encode(PAIR) == given.forward.recorder.encode(PAIR)
    (t5 / "model.toml").write_text('source = "de"\ntarget = "en"\n\n[text]\nsource_prefix = 1\n')
    with pytest.raises(ValueError, match=r"model\.toml: source_prefix must be a string; got 1"):
        open_model(t5)
