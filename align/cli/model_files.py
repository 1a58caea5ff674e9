"""Which files belong to a model, and must not be written over."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

MOST_FILES = 10_000
"""Files of a model's folder that are looked at."""

_LANGUAGE = r"(?:[A-Za-z]{2,3}(?:[-_][A-Za-z]{2,4})?|source|target)"

_NAMES = re.compile(
    r".*\.(pt|bin|npz|safetensors|spm|model|ya?ml|jinja|argosmodel)|model\.toml|.*\.index\.json"
    r"|(config|generation_config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab(-src|-tgt)?"
    r"|(source|target)_vocab|adapter_config|chat_template|metadata)\.json|(shared|source|target)_vocabulary\.(json|txt)"
    rf"|vocab\.txt|merges\.txt|dict\.[^.]+\.txt|codes?|bpecodes|bpe\.codes|(codes|bpe)\.{_LANGUAGE}|{_LANGUAGE}\.codes"
)
"""Names of files that loaders read, in a folder that may have others."""

_ABOVE = re.compile(r"(source|target)\.spm|sentencepiece(\.bpe)?\.model|bpe\.model|metadata\.json")
"""Files of a CTranslate2 model in the folder above its own."""

_WEIGHTS = (".pt", ".bin", ".npz", ".safetensors")
"""Endings of files that are the model's in its folder, unless the model is one of several files there."""


def files_of_model(model: Path) -> Iterator[Path]:
    """Yield the files that loading a model may read, given as one of them or as a folder."""
    from align.core.errors import ModelError
    from align.models.huggingface.adapter import base_beside
    from align.models.marian.model import find_vocabularies
    from align.models.model_toml import read_model_toml

    folder = model if model.is_dir() else model.parent
    yield model
    weights = [model]
    for file in _files_in(folder, _NAMES):
        if model == folder or file.suffix not in _WEIGHTS:
            yield file
            weights.append(file)
    yield from _files_in(folder / "model", _NAMES)
    if (folder / "model.bin").is_file():
        yield from _files_in(folder.resolve().parent, _ABOVE)
    with suppress(ModelError, OSError):  # which loading names
        yield from map(Path, read_model_toml(folder / "model.toml")[0].subword_files or ())
    with suppress(ModelError, OSError):
        if base := base_beside(folder)[1]:
            yield from _files_in(base, _NAMES)
    for checkpoint in weights:
        if checkpoint.suffix in (".npz", ".bin"):
            with suppress(ModelError, OSError):
                yield from find_vocabularies(folder, checkpoint.name)


def _files_in(folder: Path, names: re.Pattern[str]) -> Iterator[Path]:
    if folder.is_dir():
        yield from (file for file in islice(folder.iterdir(), MOST_FILES) if names.fullmatch(file.name))
