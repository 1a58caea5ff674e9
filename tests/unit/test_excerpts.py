"""Messages hold a short excerpt of what they are about, however long it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from align.analysis.data.chunks import parse_sentences
from align.analysis.data.gap import COLUMNS, read_gap
from align.analysis.data.treebank import read_conllu
from align.core.errors import LONGEST_MESSAGE, DataError
from align.core.text import find_spans
from align.evaluation.link_files import read_links
from align.evaluation.link_formats import parse_jsonl, parse_naacl, parse_scored
from align.io.reader import read_bitext
from align.models.model_toml import parse_toml
from align.training.recipe import read_recipe
from align.transfer.columns import read_labelled
from align.transfer.spans import read_annotated
from align.transfer.tags import read_markup

LONG = 1_000_000
MOST = 600

Reader = Callable[[str], Any]


def drain(results: Iterator[Any]) -> None:
    for _ in results:
        pass


def gap_row(text: str) -> str:
    row = dict.fromkeys(COLUMNS, "TRUE") | {"Text": "he", "Pronoun": text, "Pronoun-offset": "0"}
    return "\t".join({**row, "A": "he", "A-offset": "0", "B": text, "B-offset": text}.values())


READERS: dict[str, Reader] = {
    "bio": lambda text: drain(read_labelled([f"Das\t{text}", ""], "f", "bio")),
    "conll": lambda text: drain(read_labelled(["\t".join([text, *"_________"]), ""], "f", "conll")),
    "conllu": lambda text: drain(read_conllu(["\t".join([text, *"_________"]), ""], "f")),
    "chunks": lambda text: drain(parse_sentences([text, f"a {text}", ""], "f")),
    "gap": lambda text: drain(read_gap(["\t".join(COLUMNS), gap_row(text)], "f")),
    "gap truth": lambda text: drain(read_gap(["\t".join(COLUMNS), gap_row("he").replace("TRUE", text)], "f")),
    "spans": read_annotated,
    "spans' label": lambda text: read_annotated(json.dumps({"text": "x", "labels": [[text, text, text]]})),
    "spans' object": lambda text: read_annotated(json.dumps({"text": "x", "labels": [{text: text}]})),
    "spans' begin": lambda text: read_annotated(
        json.dumps({"text": "x", "spans": [{"start": text, "end": text, "label": text}]})
    ),
    "xml": lambda text: read_markup(f"<{text}", "xml"),
    "links": lambda text: read_links([text], "f"),
    "pharaoh": lambda text: read_links([text], "f", "pharaoh"),
    "offsets": lambda text: read_links([f"{'1' * 9}:2-3:4 {text}"], "f", "pharaoh"),
    "naacl": parse_naacl,
    "jsonl": lambda text: parse_jsonl(json.dumps({"links": [[text, text]]})),
    "scored": parse_scored,
    "scores": lambda text: parse_scored(f"0-0:{text}"),
    "bitext": lambda text: drain(read_bitext([text], "f")),
    "words": lambda text: find_spans([text], "a"),
    "toml": parse_toml,
}


@pytest.mark.parametrize("text", ["Z" * LONG, "\x1b" * LONG, "9" * LONG, "Z-" * (LONG // 2)], ids=lambda text: text[:2])
@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_long_values_are_not_written_out(reader: Reader, text: str) -> None:
    message = ""
    try:
        reader(text)
    except ValueError as error:
        message = str(error)
    assert len(message) < MOST


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ('[text]\ncase = "{}"', "[text] case is one of lower, keep; not '"),
        ('[data]\nshare = "{}"', "[data]"),
        ('[fairseq]\narch = "\\n{}"', "[fairseq] arch is "),
        ('[fairseq]\narch = "-{}"', "[fairseq] arch is "),
        ("[fairseq]\n{} = 1", "is not for a recipe to set"),
        ("[[fairseq]]\n{} = 1", "fairseq is of type list, but must be a table: [fairseq]"),
        ('text = "{}"', "text is 'Z"),
    ],
)
def test_recipes(tmp_path: Path, toml: str, message: str) -> None:
    (tmp_path / "recipe.toml").write_text(toml.replace("{}", "Z" * LONG), encoding="utf-8")
    with pytest.raises(ValueError, match=r"recipe\.toml") as error:
        read_recipe(tmp_path / "recipe.toml")
    assert message in str(error.value)
    assert len(str(error.value)) < MOST + len(str(tmp_path))


def test_every_error_of_data_has_an_end() -> None:
    assert len(str(DataError("x" * LONG, file="f", line=1))) < LONGEST_MESSAGE + 20
