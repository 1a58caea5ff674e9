"""Load a recorder from the files of a fairseq model, none of which is trusted."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

from torch import Tensor

from align.core.errors import ModelError, shorten
from align.core.types import Dtype, TextWarning
from align.models.assemble import assemble, fitting, preprocessor, text_fingerprint
from align.models.engine.linear import make_linear
from align.models.engine.search import Output
from align.models.fairseq.architecture import DISTILLED, fairseq_output, fairseq_transformer, max_positions
from align.models.fairseq.checkpoint import load_checkpoint, model_settings, plain_dict, saved_settings, text_setting
from align.models.fairseq.dictionary import EOS, PAD, SPECIAL, SPECIAL_IDS, UNK, Dictionary, read_dictionary
from align.models.folder import ModelFolder
from align.models.languages import check_language
from align.models.preprocess import TextRules
from align.models.recorder import ModelParts, ModelRecorder


def load_fairseq(folder: ModelFolder, device: str = "cpu", dtype: Dtype = "float32") -> ModelRecorder:
    """Load a fairseq checkpoint with its dictionaries and text processing.

    Warns:
        TextWarning: the dictionaries hold tokens that the tokeniser does not produce.
    """
    checkpoint = folder.checkpoint
    state = load_checkpoint(checkpoint, mapped=True)
    weights: dict[str, Tensor] = state["model"]
    saved = saved_settings(state)
    architecture = text_setting(saved, "_name") or text_setting(saved, "arch") or ""
    if not any(".encoder_attn." in weight for weight in weights):
        hint = "links need a Transformer for translation, not a language model or an encoder alone"
        message = f"no encoder-decoder attention in it{architecture and f' ({architecture})'}"
        raise ModelError(message, file=str(checkpoint), hint=hint)
    if not re.fullmatch(r"(transformer|m?bart|align)(_.*)?", architecture):
        message = f"cannot run this model ({architecture or 'without a name'}): no Transformer for translation"
        raise ModelError(message, file=str(checkpoint))
    task = plain_dict(state.get("cfg")).get("task", saved)
    folder.check_dictionaries(trained_with=text_setting(task, "data"))
    languages = _languages(folder, task)
    paths = [folder.dictionary(language) for language in languages]
    rules = [folder.rules(language, side) for side, language in enumerate(languages)]
    if (rules[0].subwords == "none") != (rules[1].subwords == "none"):
        bare = next(rule.language for rule in rules if rule.subwords == "none")
        hint = "name the file of each with ‹subword_files›, or the one of both"
        raise ModelError(f"subwords for one side, but none for {bare}", file=str(folder.root), hint=hint)
    dictionaries = [read_dictionary(path) for path in paths]
    for part, path, dictionary in zip(("encoder", "decoder"), paths, dictionaries, strict=True):
        table = weights.get(f"{part}.embed_tokens.weight")
        rows = len(table) if table is not None and table.dim() == 2 else 0
        if rows != (count := len(dictionary)):
            message = f"{count:,} entries with fairseq's 4 special ones, but the {part} of {checkpoint} was "
            raise ModelError(f"{message}trained with {rows:,}: not this model's dictionary", file=str(path))
    with fitting(checkpoint):
        settings = model_settings(saved, weights)
        transformer = fairseq_transformer(settings, weights, device, dtype)
    if doubt := doubt_about_tokenizer(folder.options.tokenizer, rules, dictionaries):
        warnings.warn(f"{checkpoint}: {doubt}", TextWarning, stacklevel=3)  # the caller of align.load
    parts = ModelParts(
        transformer,
        languages,
        sides=(
            preprocessor(rules[0], dictionaries[0].ids(), UNK),
            preprocessor(rules[1], dictionaries[1].ids(), UNK),
        ),
        vocabularies=((paths[0], len(dictionaries[0])), (paths[1], len(dictionaries[1]))),
        special=(SPECIAL_IDS, SPECIAL_IDS),
        pad=PAD,
        unk=UNK,
        after=(EOS,),
        start=(EOS,),
        max_positions=max_positions(settings),
        digest=text_fingerprint([checkpoint, *paths], rules),
        load=load_fairseq,
        output=partial(_output, dictionaries[1]),
    )
    return assemble(parts, folder, device, dtype)


def _output(target: Dictionary, recorder: ModelRecorder) -> Output:
    """Return the output layer of a model, whose file is read again."""
    folder, device, dtype = recorder.origin
    state = load_checkpoint(folder.checkpoint, mapped=True)
    with fitting(folder.checkpoint):
        settings = model_settings(saved_settings(state), state["model"])
        if settings.arch == DISTILLED:
            raise ModelError("this model was distilled to align, and cannot translate")
        weight = fairseq_output(settings, state["model"])
    pieces = dict(enumerate(target.pieces[len(SPECIAL) :], len(SPECIAL)))
    return Output(make_linear(weight.to(device), None, dtype=dtype), EOS, (PAD,), pieces)


def _languages(folder: ModelFolder, task: Any) -> tuple[str, str]:
    trained_on = folder.binarised_languages()
    source = folder.options.source_lang or text_setting(task, "source_lang") or trained_on[0]
    target = folder.options.target_lang or text_setting(task, "target_lang") or trained_on[1]
    if not (source and target):
        hint = "give ‹source_lang› and ‹target_lang›"
        dictionaries = ", ".join(map(shorten, folder.dictionary_languages()[:10]))
        message = f"does not say its languages (there are dictionaries of: {dictionaries})"
        raise ModelError(message, file=str(folder.checkpoint), hint=hint)
    with fitting(folder.checkpoint, prefix=""):
        return check_language(source), check_language(target)


def doubt_about_tokenizer(given: str | None, rules: Sequence[TextRules], dictionaries: Sequence[Dictionary]) -> str:
    """Return a warning if the dictionaries hold tokens that Moses escapes or splits, but the text's tokeniser does not.

    It is empty if there is no problem, or words are looked up unchanged. `given` is the tokeniser in the
    options; "none" means that the text is already tokenised.
    """
    as_they_are = given is None and all(rule.subwords == "none" for rule in rules)
    if as_they_are or given in ("none", "moses-escaped-hyphens"):
        return ""
    text = [(piece, n) for known in dictionaries for piece, n in zip(known.pieces, known.counts, strict=True)]
    escaped = sum(n for piece, n in text if "&apos;" in piece or "&quot;" in piece)
    if escaped <= sum(n for piece, n in text if "'" in piece or '"' in piece):  # a few come from the web in any text
        return ""
    tokenizer, tokens = "moses-escaped", "&apos; or &quot;"
    if any(n and piece.lstrip("\u2581") == "@-@" for piece, n in text):
        tokenizer, tokens = "moses-escaped-hyphens", "&apos; or &quot;, and @-@"
    if given == tokenizer:
        return ""
    return f"its dictionary holds {tokens}: is its tokenizer {tokenizer}, not {given or 'none'}?"
