"""Text that a model reads before each source: T5's name of its task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from align import Aligner, Pair, load
from align.core.types import Pieces
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


def pieces_of(folder: Path, **options: Any) -> Pieces:
    return open_model(folder, **options).forward.recorder.encode(PAIR)


def test_pieces_are_those_of_the_whole_text_and_links_count_the_users_words(t5: Path) -> None:
    aligner = open_model(t5, source_prefix=PREFIX)
    pieces = pieces_of(t5, source_prefix=PREFIX)
    tokenize, _ = own_tokenizers("t5", t5)
    expected = tokenize(PREFIX + " ".join(PAIR.source), add_special_tokens=False)["input_ids"]
    assert list(pieces.source) == [*expected, 2]
    plain = pieces_of(t5)
    own = [(piece, word) for piece, word in zip(pieces.source, pieces.source_words, strict=True) if word >= 0]
    assert own == list(zip(plain.source, plain.source_words, strict=True))[:-1]
    assert all(0 <= i < 4 for i, _ in aligner.align(*["das haus ist alt", "the house is old"]))
    assert len(aligner.word_scores(PAIR.source, PAIR.target)[0]) == 5
    assert "after 'see das the now:'" in aligner.forward.recorder.text


def test_where_it_comes_from(t5: Path) -> None:
    tasks = {"translation_en_to_de": {"prefix": PREFIX}, "summarization": {"prefix": "wir sehen: "}}  # as T5 names them
    config = json.loads((t5 / "config.json").read_text())
    (t5 / "config.json").write_text(json.dumps({**config, "task_specific_params": tasks}))
    plain, given = open_model(t5).forward.recorder, open_model(t5, source_prefix=PREFIX).forward.recorder
    assert given.name != plain.name
    assert pieces_of(t5, source_lang="en", target_lang="de") == given.encode(PAIR)
    for languages in (("de", "en"), ("en", "de")):
        without = pieces_of(t5, source_prefix="", source_lang=languages[0], target_lang=languages[1])
        assert without == plain.encode(PAIR)
    (t5 / "model.toml").write_text(f'source = "de"\ntarget = "en"\n\n[text]\nsource_prefix = "{PREFIX}"\n')
    assert pieces_of(t5) == given.encode(PAIR)
