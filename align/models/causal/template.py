"""Templates of prompts: what a language model reads before and after a source, and where the source stands in it."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import version
from pathlib import Path
from typing import Any

from align.core.errors import ModelError, one_line, shorten
from align.core.types import Span, TextWarning
from align.models.languages import base_language
from align.models.settings import Config, read_json, tokenizer_config

TOWER = "Translate the following text from {source_lang} into {target_lang}.\n{source_lang}: {source}\n{target_lang}:"
ALMA = "Translate this from {source_lang} to {target_lang}:\n{source_lang}: {source}\n{target_lang}:"
EUROLLM = (
    "Translate the following {source_lang} source text to {target_lang}:\n{source_lang}: {source} \n{target_lang}: "
)

TRANSLATEGEMMA = "translategemma"
"""Preset whose chat template takes the source and the codes of the languages, and writes the request itself."""

PRESETS = {
    "chat": TOWER,
    "tower": TOWER,
    "alma": f"{ALMA} {{target}}",
    "x-alma": ALMA,
    "eurollm": EUROLLM,
    TRANSLATEGEMMA: "{source}",
}
"""Patterns of published translators; "chat" is for other models with a chat template."""

NAMES = {
    "af": "Afrikaans", "am": "Amharic", "ar": "Arabic", "az": "Azerbaijani", "be": "Belarusian", "bg": "Bulgarian",
    "bn": "Bengali", "bs": "Bosnian", "ca": "Catalan", "cs": "Czech", "cy": "Welsh", "da": "Danish", "de": "German",
    "el": "Greek", "en": "English", "es": "Spanish", "et": "Estonian", "eu": "Basque", "fa": "Persian",
    "fi": "Finnish", "fr": "French", "ga": "Irish", "gl": "Galician", "gu": "Gujarati", "he": "Hebrew", "hi": "Hindi",
    "hr": "Croatian", "hu": "Hungarian", "hy": "Armenian", "id": "Indonesian", "is": "Icelandic", "it": "Italian",
    "ja": "Japanese", "ka": "Georgian", "kk": "Kazakh", "km": "Khmer", "kn": "Kannada", "ko": "Korean", "lo": "Lao",
    "lt": "Lithuanian", "lv": "Latvian", "mk": "Macedonian", "ml": "Malayalam", "mn": "Mongolian", "mr": "Marathi",
    "ms": "Malay", "mt": "Maltese", "my": "Burmese", "ne": "Nepali", "nl": "Dutch", "no": "Norwegian",
    "pa": "Punjabi", "pl": "Polish", "ps": "Pashto", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian",
    "si": "Sinhala", "sk": "Slovak", "sl": "Slovenian", "so": "Somali", "sq": "Albanian", "sr": "Serbian",
    "sv": "Swedish", "sw": "Swahili", "ta": "Tamil", "te": "Telugu", "th": "Thai", "tl": "Tagalog", "tr": "Turkish",
    "uk": "Ukrainian", "ur": "Urdu", "uz": "Uzbek", "vi": "Vietnamese", "yo": "Yoruba", "zh": "Chinese", "zu": "Zulu",
}  # fmt: skip
"""Names of languages in English, as they stand in prompts."""
MORE_NAMES = NAMES | {
    "fil": "Tagalog", "ht": "Haitian Creole", "ky": "Kyrgyz", "lb": "Luxembourgish", "mg": "Malagasy",
    "nn": "Norwegian Nynorsk", "tg": "Tajik",
}  # fmt: skip
"""Also those of languages that the check of texts does not look for, or has by another code."""

_MARK, _PROBE = "\ue000source\ue001", "A second source: of several words."
"""Stand for the source, to find it in what a chat template writes."""


@dataclass(frozen=True)
class Template:
    """The text around sources."""

    # text before, between and after the places of the source; of several places the last one counts
    parts: tuple[str, ...]
    chat: bool  # whether a chat template wrote it, with the special pieces at its beginning

    def fill(self, source: str, target: str | None) -> tuple[str, Span, Span]:
        """Return the prompt of a source, with its translation or, for a model to continue, without; and their spans."""
        prompt = source.join(self.parts)
        end = len(prompt) - len(self.parts[-1])
        if target is None:
            prompt, target = prompt if self.chat else prompt.rstrip(" "), ""
        return prompt + target, (end - len(source), end), (len(prompt), len(prompt) + len(target))


def read_template(root: Path, pattern: str, languages: tuple[str | None, str | None]) -> Template:
    r"""Return the template of a model in a folder.

    The pattern is a key of PRESETS, or a text with {source} in which \n stands for a line's end. If it has {target}, it
    is the text as it is; otherwise it is a user's message, and the model's chat template adds the rest. {source_lang}
    and {target_lang} are English names of languages, {source_code} and {target_code} their codes.
    """
    text = PRESETS.get(pattern) or pattern.replace("\\n", "\n")
    if "{source}" not in text:
        message = f"the template {shorten(pattern)!r} has no {{source}}, and is not one of {', '.join(PRESETS)}"
        near = get_close_matches(pattern.lower(), PRESETS, 1, 0.75)
        hint = f"did you mean {near[0]}?" if near else "write {source}, and {target} at its end unless it is a chat"
        raise ModelError(message, file=str(root), hint=hint)
    whole = "{target}" in text
    if whole and (text.count("{target}") > 1 or not text.endswith("{target}")):
        raise ModelError(f"the template {shorten(pattern)!r} does not end with its only {{target}}", file=str(root))
    if unknown := re.search(r"\{(?!(source|target)(_lang|_code)?\})[a-z_]+\}", text):
        replaced = "{source}, {target}, {source_lang}, {target_lang}, {source_code} and {target_code}"
        warnings.warn(f"the template has {unknown[0]}, which is not replaced: only {replaced} are", TextWarning, 2)
    missing = []
    for side, language, example in zip(("source", "target"), languages, ("de", "en"), strict=True):
        name, code = f"{{{side}_lang}}", f"{{{side}_code}}"
        if language is not None:
            is_name = re.match("[A-Z][a-z]|.*[^\x00-\x7f]", language)
            known = language.replace("_", " ") if is_name else MORE_NAMES.get(base_language(language), "")
            if name in text and not known:
                hint = f"give ‹{side}_lang› its code, or its name in English, such as Low_German, with a capital letter"
                raise ModelError(f"no English name is known for {shorten(language)}", file=str(root), hint=hint)
            text = text.replace(name, known).replace(code, language)
        elif name in text or code in text or pattern == TRANSLATEGEMMA:
            missing.append((side, f"‹{side}_lang›", example))
    if missing:
        side, args, code = (" and ".join(column) for column in zip(*missing, strict=True))
        raise ModelError(f"its template needs the {side} language", file=str(root), hint=f"give {args}, such as {code}")
    parts = text.removesuffix("{target}").split("{source}")
    if whole:
        return Template(tuple(parts), False)
    return _chat(root, parts, languages if pattern == TRANSLATEGEMMA else None)


def _chat(root: Path, parts: Sequence[str], languages: tuple[str | None, str | None] | None) -> Template:
    """Return the template that a model's chat template, a program of Jinja that is not trusted, makes of a message."""
    try:
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        leaks = tuple(map(int, re.findall(r"\d+", version("jinja2"))[:3])) < (3, 1, 6)  # out of its sandbox
    except ModuleNotFoundError:
        leaks = True
    if leaks:
        raise ModuleNotFoundError("chat templates need jinja2 3.1.6 or newer: pip install -U jinja2", name="jinja2")
    settings = tokenizer_config(root)
    template, file = settings.content.get("chat_template"), settings.file
    if (path := root / "chat_template.jinja").is_file():
        template, file = path.read_text(encoding="utf-8", errors="replace"), str(path)
    elif (path := root / "chat_template.json").is_file():
        template, file = read_json(path).get("chat_template"), str(path)
    if isinstance(template, list):
        named = (item for item in template if isinstance(item, dict) and item.get("name") == "default")
        template = next(named, {}).get("template")
    if not isinstance(template, str):
        hint = "give ‹template›, a text with {source} and {target}"
        raise ModelError("the model has no chat template", file=file, hint=hint)
    if (takes_codes := "source_lang_code" in template) != (languages is not None):
        hint = f"give ‹template› {TRANSLATEGEMMA}" if takes_codes else f"{TRANSLATEGEMMA} is for TranslateGemma alone"
        what = "takes" if takes_codes else "does not take"
        raise ModelError(f"its chat template {what} codes of languages", file=file, hint=hint)
    special = {name: token_of(settings, name) for name in settings.content if name.endswith("_token")}
    tokens = {name: token for name, token in special.items() if token is not None}

    def refuse(message: object) -> None:
        raise TemplateError(str(message))

    # the settings of transformers, without the date of today, by which links would differ from day to day
    extensions = ["jinja2.ext.loopcontrols"]
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=extensions)
    environment.globals["raise_exception"] = refuse
    environment.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)

    def write(source: str) -> str:
        content: Any = source.join(parts)
        if languages is not None:
            codes = {"source_lang_code": languages[0], "target_lang_code": languages[1]}
            content = [{"type": "text", **codes, "text": content}]
        messages = [{"role": "user", "content": content}]
        try:
            return environment.from_string(template).render(
                **tokens, messages=messages, add_generation_prompt=True, enable_thinking=False
            )
        except Exception as error:  # those of Jinja, and whatever its operators raise
            message = f"its chat template cannot be rendered: {one_line(error) or type(error).__name__}"
            raise ModelError(message, file=file) from None

    written = tuple(write(_MARK).split(_MARK))
    if len(written) < 2 or write(_PROBE) != _PROBE.join(written):
        raise ModelError("its chat template leaves out the source, or changes it", file=file)
    return Template(written, True)


def token_of(settings: Config, name: str) -> str | None:
    """Return a special token of tokenizer_config.json, such as `bos_token`; None if there is none."""
    value = settings.content.get(name)
    value = value.get("content") if isinstance(value, dict) else value
    return value if isinstance(value, str) else None
