"""Codes of languages in the systems that published models use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.models.huggingface.languages import LANGUAGES
from align.models.languages import base_language, find_language, is_group, same_language

NLLB = LANGUAGES["nllb"].split()


@pytest.mark.parametrize(
    ("code", "other"),
    [
        *(("de", "deu_Latn"), ("de_DE", "de"), ("en_XX", "eng_Latn"), ("pt", "por"), ("pt", "pob"), ("ar", "arb_Arab")),
        *(("fa", "pes_Arab"), ("zh", "zho_Hans"), ("zh_CN", "zho_Hant"), ("no", "nob_Latn"), ("ms", "zsm_Latn")),
        *(("he", "iw"), ("tl", "tgl_Latn"), ("ps", "pbt_Arab"), ("ns", "nso_Latn"), ("nl_XX", "nld_Latn")),
    ],
)
def test_codes_of_one_language(code: str, other: str) -> None:
    assert same_language(code, other)
    assert same_language(other, code)


@pytest.mark.parametrize(("code", "other"), [("de", "nld_Latn"), ("source", "target"), ("en", "source"), ("xx", "de")])
def test_codes_of_two_languages(code: str, other: str) -> None:
    assert not same_language(code, other)


def test_most_codes_of_m2m100_and_mbart_are_found_among_those_of_nllb() -> None:
    """Breton and Frisian are no languages of NLLB; Chinese has two scripts there, and Persian a sister."""
    codes = [*LANGUAGES["m2m100"].split(), *LANGUAGES["mbart-50"].split()]
    missing = {code for code in codes if find_language(code, NLLB) is None}
    assert missing == {"br", "fy", "fa", "zh", "zh_CN", "fa_IR"}
    assert find_language("eng_Latn", NLLB) == "eng_Latn"
    assert find_language("pt", ["por", "pob", "fra"]) is None


def test_groups() -> None:
    assert all(map(is_group, ("roa", "mul", "ROMANCE", "NORTH_EU")))
    assert not any(map(is_group, ("de", "deu", "deu_Latn", "en_XX", "source", "EN")))


@given(st.text(max_size=20))
def test_any_text_is_some_language(code: str) -> None:
    assert same_language(code, code)
    assert isinstance(base_language(code), str)
