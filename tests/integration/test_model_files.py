"""Checkpoints and dictionaries that do not go together are named, and every file changes the fingerprint."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import align
from align import Pair, TextWarning
from align.models.fairseq.checkpoint import load_checkpoint
from align.models.fairseq.model import load_fairseq
from align.models.folder import find_model
from align.models.model_toml import ModelOptions
from tests import toy


def load(path: Path, **options: Any) -> None:
    load_fairseq(find_model(str(path), ModelOptions(**options)))


def test_a_dictionary_that_is_missing(tmp_path: Path) -> None:
    checkpoint = toy.save_model(tmp_path)
    load(checkpoint)
    (tmp_path / "dict.de.txt").unlink()
    with pytest.raises(ValueError, match=r"dict\.de\.txt: no such dictionary"):
        load(checkpoint)
    with pytest.raises(ValueError, match=r"dict\.fr\.txt: no such dictionary"):
        load(checkpoint, source_lang="fr")


ESCAPED, HYPHENS, PLAIN = ["&apos;s", "&quot;"], ["\u2581&apos;@@", "@-@"], ["'s", '"']
BPE = {"subwords": "subword-nmt"}


@pytest.mark.parametrize(
    ("pieces", "options", "fits"),
    [
        (ESCAPED, {"tokenizer": "moses"}, "moses-escaped, not moses"),
        (ESCAPED, BPE, "moses-escaped, not none"),
        (HYPHENS, {"tokenizer": "moses", **BPE}, "moses-escaped-hyphens, not moses"),
        (ESCAPED, {"tokenizer": "moses-escaped"}, ""),
        (HYPHENS, {"tokenizer": "moses-escaped-hyphens"}, ""),
        (HYPHENS, {"tokenizer": "none", **BPE}, ""),
        ([*PLAIN, "&quot;"], {"tokenizer": "moses"}, ""),
    ],
)
def test_tokens_that_the_tokeniser_does_not_make(
    tmp_path: Path, pieces: list[str], options: dict[str, Any], fits: str
) -> None:
    checkpoint = toy.save_model(tmp_path)
    (tmp_path / "codes.txt").write_text("#version: 0.2\na b\n", encoding="utf-8")
    toy.save_dictionary(tmp_path / "dict.en.txt", [*pieces, *toy.TARGET_WORDS[len(pieces) :]])
    files = [tmp_path / "codes.txt"] if "subwords" in options else None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TextWarning)
        align.load(checkpoint, options=ModelOptions(**options, subword_files=files), device="cpu")
    said = [str(warning.message) for warning in caught if issubclass(warning.category, TextWarning)]
    held = "&apos; or &quot;" + ", and @-@" * (pieces == HYPHENS)
    assert said == ([f"{checkpoint}: its dictionary holds {held}: is its tokenizer {fits}?"] if fits else [])
    assert all(warning.filename == __file__ for warning in caught if issubclass(warning.category, TextWarning))


def test_fingerprint_changes_with_every_file_and_rule(tmp_path: Path) -> None:
    checkpoint = toy.save_model(tmp_path)

    def name(**options: Any) -> str:
        return load_fairseq(find_model(str(checkpoint), ModelOptions(**options))).name

    names = {name(), name(case="lower"), name(tokenizer="moses")}
    toy.save_dictionary(tmp_path / "dict.de.txt", [*toy.SOURCE_WORDS[:-1], "sieht"])
    names.add(name())
    toy.save_dictionary(tmp_path / "dict.en.txt", [*toy.TARGET_WORDS[:-1], "then"])
    names.add(name())
    state = load_checkpoint(checkpoint)
    state["model"]["encoder.embed_tokens.weight"] += 1
    torch.save(state, checkpoint)
    names.add(name())
    (tmp_path / "bpecodes").write_text("a b\n", encoding="utf-8")
    names.add(name())
    (tmp_path / "bpecodes").write_text("a c\n", encoding="utf-8")
    names.add(name())
    assert len(names) == 8


def test_pieces_are_cut_further_by_the_models_own_dictionary(tmp_path: Path) -> None:
    checkpoint = toy.save_model(tmp_path)
    (tmp_path / "codes").write_text("#version: 0.2\nd a\nda s</w>\nx das</w>\nt h\nth e</w>\n", encoding="utf-8")

    def pieces(subwords: str) -> list[int]:
        recorder = load_fairseq(find_model(str(checkpoint), ModelOptions(subwords=subwords)))
        return list(recorder.encode(Pair(("das", "xdas"), ("the",), 1)).source)

    das, unknown, end = 4, 3, 2
    assert pieces("subword-nmt") == [das, unknown, end]
    assert pieces("subword-nmt-vocabulary") == [das, unknown, das, end]
