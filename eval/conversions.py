"""Do CTranslate2 folders of many versions give the links of their source model? See eval/results/conversions.tsv.

    python eval/run.py conversions FOLDER/*

Each folder is named after a version, such as 4.8.5, and has conversions of the bundled German-English model in folders
named after their quantisation, such as int8. Versions up to 2.22 need Python 3.8, so conversions are made in separate
environments, with fairseq 0.12.2 and one version of ctranslate2:

    from ctranslate2.converters import FairseqConverter
    bundled = "align/models/bundled/de-en"
    converter = FairseqConverter(bundled + "/checkpoint.pt", bundled, source_lang="de", target_lang="en")
    converter.convert(folder, quantization=None)  # or "int8", "int16", "float16", …

On Python 3.11 `align.models.fairseq.compat.install()` comes first. The pairs are the first 500 of DATA/valid.de and
valid.en, and the links those of all heads together, of layer 1 at the input and layer 2 at the output position.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common import write_table

from align import load
from align.evaluation.tables import Column, Value
from align.io.signature import signature
from align.models.folder import BUNDLED
from align.models.model_toml import ModelOptions

CELLS: dict[str, Any] = {"layer": 1, "head": "all", "output_layer": 2, "output_head": "all"}
PAIRS = 500
COLUMNS = [
    *(Column(key, key) for key in ("version", "quantisation", "links", "different")),
    Column("share", "different, %", 2),
]


def run(folders: Sequence[Path], data: Path, output: Path) -> None:
    """Align with every conversion, count, print, write.

    Raises:
        ValueError: there are none.
    """
    conversions = [path.parent for folder in folders for path in folder.glob("*/model.bin")]
    if not conversions:
        raise ValueError("no conversions (VERSION/QUANTISATION/model.bin) are given")
    lines = [(data / f"valid.{side}").read_text(encoding="utf-8").split("\n")[:PAIRS] for side in ("de", "en")]
    pairs = list(zip(*lines, strict=True))
    source = load("de-en", **CELLS)
    expected = [{*alignment.links} for alignment in source(pairs)]
    count = sum(map(len, expected))
    options = ModelOptions(
        source_lang="de",
        target_lang="en",
        case="lower",
        tokenizer="moses",
        subwords="sentencepiece",
        subword_files=[BUNDLED / "de-en" / f"{language}.spm" for language in ("de", "en")],
    )
    rows: list[dict[str, Value]] = []
    for folder in sorted(conversions, key=lambda path: ([*map(int, path.parent.name.split("."))], path.name)):
        links = [{*alignment.links} for alignment in load(folder, options=options, **CELLS)(pairs)]
        different = sum(len(a ^ b) for a, b in zip(expected, links, strict=True))
        rows.append(
            {
                "version": folder.parent.name,
                "quantisation": folder.name,
                "links": count,
                "different": different,
                "share": 100 * different / count,
            }
        )
    write_table(
        COLUMNS, rows, signature({"model": source.forward.recorder.name}, "conversions"), output / "conversions.tsv"
    )
