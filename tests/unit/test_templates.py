"""Prompts of language models: presets, chat templates, and where the source stands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.core.errors import ModelError
from align.core.types import TextWarning
from align.models.causal.template import MORE_NAMES, PRESETS, Template, read_template

pytest.importorskip("jinja2", reason="needs jinja2, which renders chat templates")

TURNS = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] | trim }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
GERMAN_ENGLISH = ("de", "en")


def with_template(folder: Path, template: object, **settings: object) -> Path:
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template, **settings}))
    return folder


def test_prompts_of_presets(tmp_path: Path) -> None:
    with_template(tmp_path, TURNS)

    def prompt(name: str) -> str:
        return read_template(tmp_path, name, GERMAN_ENGLISH).fill("Das Haus", "The house")[0]

    assert prompt("tower") == (
        "<|im_start|>user\nTranslate the following text from German into English.\nGerman: Das Haus\nEnglish:"
        "<|im_end|>\n<|im_start|>assistant\nThe house"
    )
    assert prompt("alma") == "Translate this from German to English:\nGerman: Das Haus\nEnglish: The house"
    assert "Translate the following German source text to English:\nGerman: Das Haus \nEnglish:" in prompt("eurollm")
    assert prompt("chat") == prompt("tower")
    assert set(PRESETS) == {"chat", "tower", "alma", "x-alma", "eurollm", "translategemma"}


def test_a_chat_template_that_takes_codes(tmp_path: Path) -> None:
    template = (
        "{{ bos_token }}{% for message in messages %}{% set part = message['content'][0] %}From "
        "{{ part['source_lang_code'] }} to {{ part['target_lang_code'] }}:\n{{ part['text'] | trim }}\n{% endfor %}"
    )
    with_template(tmp_path, template, bos_token={"content": "<bos>"})
    filled = read_template(tmp_path, "translategemma", ("de", "en-GB")).fill("Das Haus", "The house")
    assert filled[0] == "<bos>From de to en-GB:\nDas Haus\nThe house"
    with pytest.raises(ModelError, match="its chat template takes codes of languages") as caught:
        read_template(tmp_path, "tower", ("de", "en"))
    assert caught.value.hint == "give ‹template› translategemma"


def test_what_stands_for_itself_in_a_text_is_doubted(tmp_path: Path) -> None:
    with pytest.warns(TextWarning, match=r"the template has \{lang\}, which is not replaced: only \{source\}, "):
        template = read_template(tmp_path, "To {lang} or {LANG}: {source}\\n{target_lang}: {target}", GERMAN_ENGLISH)
    assert template.fill("Haus", "house")[0] == "To {lang} or {LANG}: Haus\nEnglish: house"


def test_a_chat_template_without_codes_is_not_translategemmas(tmp_path: Path) -> None:
    with_template(tmp_path, "{{ messages[0]['content'][0]['text'] }}")  # would ask for nothing
    with pytest.raises(ModelError, match="its chat template does not take codes of languages") as caught:
        read_template(tmp_path, "translategemma", ("de", "en"))
    assert caught.value.hint == "translategemma is for TranslateGemma alone"


@given(
    st.lists(st.sampled_from(["German:", "{source}", "Das", "{target}", "\n", "English:"]), min_size=1).map(" ".join),
    st.text("abc {}", min_size=1),
)
def test_the_span_is_the_sources_whatever_it_says(source: str, target: str) -> None:
    template = Template(("German: ", " again German: ", "\nEnglish: "), chat=False)
    text, (begin, end), (first, last) = template.fill(source, target)
    assert (text[begin:end], text[first:last]) == (source, target)
    assert text[:begin].endswith(" again German: ")
    assert last == len(text)


@pytest.mark.parametrize(
    ("language", "named"),
    [
        ("deu_Latn", "German"),
        ("pt-BR", "Portuguese"),
        ("kir", "Kyrgyz"),
        ("Low_German", "Low German"),
        ("日本語", "日本語"),
        ("Ga", "Ga"),  # not the code of Irish
        ("Mon", "Mon"),
        *MORE_NAMES.items(),
    ],
)
def test_languages_are_named_by_their_codes_or_as_they_are(tmp_path: Path, language: str, named: str) -> None:
    template = read_template(tmp_path, "{source_lang} ({source_code}): {source} = {target}", (language, None))
    assert template.fill("a", "b")[0] == f"{named} ({language}): a = b"


def test_a_prompt_to_continue_ends_before_the_space_that_the_models_next_piece_begins_with(tmp_path: Path) -> None:
    template = read_template(tmp_path, r"{source_code}: {source}\n{target_code}: {target}", GERMAN_ENGLISH)
    assert template.fill("a", None)[0] == "de: a\nen:"
    assert template.fill("a", "b")[0] == "de: a\nen: b"


@pytest.mark.parametrize(
    ("pattern", "languages", "message"),
    [
        ("towers", GERMAN_ENGLISH, "the template 'towers' has no {source}, and is not one of chat, tower, alma"),
        ("{source} = {target}.", GERMAN_ENGLISH, "does not end with its only {target}"),
        ("alma", (None, "en"), "its template needs the source language"),
        ("alma", ("de", "hsb"), "no English name is known for hsb"),
        ("alma", ("german", "en"), "no English name is known for german"),
        ("alma", ("de1", "en"), "no English name is known for de1"),
        ("alma", ("xx@y", "en"), "no English name is known for xx@y"),
        ("alma", ("XX_Latn", "en"), "no English name is known for XX_Latn"),
        ("translategemma", ("de", None), "its template needs the target language"),
    ],
)
def test_patterns_that_are_refused(
    tmp_path: Path, pattern: str, languages: tuple[str | None, str | None], message: str
) -> None:
    with pytest.raises(ModelError, match=message.replace("{", r"\{")):
        read_template(tmp_path, pattern, languages)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (None, "the model has no chat template"),
        ("{{ messages[0]['content'] | upper }}", "leaves out the source, or changes it"),
        ("{{ raise_exception('no users here') }}", "no users here"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "cannot be rendered"),
        ("{{ messages.append(1) }}", "cannot be rendered"),
    ],
)
def test_chat_templates_that_are_refused(tmp_path: Path, template: object, message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        read_template(with_template(tmp_path, template), "chat", GERMAN_ENGLISH)
    assert caught.value.file == str(tmp_path / "tokenizer_config.json")


def test_a_jinja2_whose_sandbox_leaks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("align.models.causal.template.version", {"jinja2": "3.1.5"}.__getitem__)
    with pytest.raises(ModuleNotFoundError, match=r"need jinja2 3\.1\.6 or newer: pip install -U jinja2"):
        read_template(with_template(tmp_path, TURNS), "chat", GERMAN_ENGLISH)


def test_files_of_a_chat_template(tmp_path: Path) -> None:
    with_template(tmp_path, [{"name": "tool", "template": "x"}, {"name": "default", "template": TURNS}])
    assert read_template(tmp_path, "{source}", (None, None)).parts[0] == "<|im_start|>user\n"
    (tmp_path / "chat_template.jinja").write_text("{{ messages[0]['content'] }} = ")
    assert read_template(tmp_path, "{source}", (None, None)).parts == ("", " = ")


def test_prompts_are_those_of_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    from tests import causal

    causal.save_tokenizer(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    message = PRESETS["tower"].format(source_lang="German", target_lang="English", source="das haus <|end|>")
    for thinking in ("", "{% if enable_thinking is defined and not enable_thinking %}<|answer|>{% endif %}"):
        template = causal.CHAT + thinking
        with_template(tmp_path, template, bos_token="<s>")
        own = tokenizer.apply_chat_template(
            [{"role": "user", "content": message}], chat_template=template, add_generation_prompt=True,
            tokenize=False, enable_thinking=False,
        )  # fmt: skip
        assert read_template(tmp_path, "tower", GERMAN_ENGLISH).fill("das haus <|end|>", "")[0] == own
