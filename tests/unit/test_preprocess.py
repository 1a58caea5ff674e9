"""Pieces word by word are the pieces of the whole sentence, and each knows its word."""

import io
from collections import Counter
from pathlib import Path
from typing import cast

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from sacremoses import MosesTokenizer
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from align import ModelOptions, load
from align.models import preprocess
from align.models.folder import BUNDLED
from align.models.preprocess import Preprocessor, TextRules, moses_normalizer
from align.models.recorder import ModelRecorder
from tests.conftest import example_pairs

MODEL = BUNDLED / "de-en"


def collect(rules: TextRules) -> tuple[Preprocessor, list[str]]:
    """A preprocessor whose ids number the pieces that it has met."""
    met: list[str] = []

    def index(piece: str) -> int:
        if piece not in met:
            met.append(piece)
        return met.index(piece)

    return Preprocessor(rules, index), met


def moses_words(language: str, words: tuple[str, ...]) -> tuple[list[str], list[int]]:
    """Tokens that a Moses preprocessor without subwords makes, and whose they are."""
    preprocessor, met = collect(TextRules(language, tokenizer="moses"))
    ids, owners = preprocessor(words)
    return [met[number] for number in ids], owners


SENTENCES = [
    'Das Haus, das ich "z.B." sah, kostet 1.000,50 Euro (ca. 5 % mehr) usw. und so weiter.',
    "Dr. Müller sagte: 'Nein', am 3. Oktober z. B. um 5.30 Uhr ... nicht wahr?",
    "It's Mr. Smith's dog; they don't like it, e.g. at No. 5, U.S. and/or U.K. 'quoted' isn't etc.",
    "we 're here , and you 've `` heard '' it . that 's all .",
]


@pytest.mark.parametrize("language", ["de", "en"])
@pytest.mark.parametrize("sentence", SENTENCES)
def test_moses_word_by_word_equals_moses_on_the_sentence(language: str, sentence: str) -> None:
    words = tuple(sentence.split(" "))
    tokens, owners = moses_words(language, words)
    assert tokens == MosesTokenizer(language).tokenize(sentence, escape=False)
    assert owners == sorted(owners)
    for number, word in enumerate(words):
        assert "".join(t for t, owner in zip(tokens, owners, strict=True) if owner == number) == word


@pytest.mark.parametrize("dummy_prefix", [False, True])
def test_sentencepiece_word_by_word_equals_the_sentence(tmp_path: Path, dummy_prefix: bool) -> None:
    sentences = [" ".join(pair.source).lower() for pair in example_pairs()]
    prefix = tmp_path / "de"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_prefix=str(prefix), vocab_size=120, hard_vocab_limit=False,
        add_dummy_prefix=dummy_prefix, remove_extra_whitespaces=dummy_prefix, minloglevel=2,
    )  # fmt: skip
    path = prefix.with_suffix(".model")
    whole = sentencepiece.SentencePieceProcessor(model_file=str(path))
    preprocessor, met = collect(TextRules("de", "lower", "none", "sentencepiece", path))
    for sentence in sentences:
        ids, _ = preprocessor(sentence.split(" "))
        assert [met[n] for n in ids] == whole.encode(sentence, out_type=str)


def test_fastbpe_codes_give_the_same_pieces(tmp_path: Path) -> None:
    codes = io.StringIO()
    learn_bpe(["low lower lowest newer newest"] * 5, codes, 12)
    (tmp_path / "codes").write_text(codes.getvalue(), encoding="utf-8")
    lines = codes.getvalue().splitlines()[1:]
    (tmp_path / "fast").write_text("".join(f"{line} 5\n" for line in lines), encoding="utf-8")
    pieces = []
    for name in ("codes", "fast"):
        preprocessor, met = collect(TextRules("en", subwords="subword-nmt", subword_file=tmp_path / name))
        pieces.append([met[n] for n in preprocessor(("newly", "lowest", "slow"))[0]])
    assert pieces[0] == pieces[1]
    assert "ne@@" in pieces[0]


def test_pieces_that_the_dictionary_lacks_are_cut_as_by_subword_nmt_with_a_vocabulary(tmp_path: Path) -> None:
    words = [word for pair in example_pairs() for word in (*pair.source, *pair.target)]
    codes = io.StringIO()
    learn_bpe([" ".join(words)], codes, 300, min_frequency=1)
    (tmp_path / "codes").write_text(codes.getvalue(), encoding="utf-8")
    counts = Counter(BPE(io.StringIO(codes.getvalue())).segment_tokens(words))
    vocabulary = {piece for piece, count in counts.items() if count >= 3}
    limited = BPE(io.StringIO(codes.getvalue()), vocab=vocabulary)
    known = sorted(set(limited.segment_tokens(words)))  # what is in the dictionary of a text that was cut so
    rules = TextRules("en", subwords="subword-nmt-vocabulary", subword_file=tmp_path / "codes")
    preprocessor = Preprocessor(rules, known.index, known)
    for word in words:
        assert [known[number] for number in preprocessor([word])[0]] == limited.segment_tokens([word])
    assert not set(known) >= counts.keys()


def test_invisible_characters_do_not_hide_the_context_of_a_point() -> None:
    preprocessor = Preprocessor(TextRules("de", tokenizer="moses"), lambda piece: 3)
    for following in ("und", "Das"):
        expected = preprocessor.spell(["etc.", following])
        assert preprocessor.spell(["etc.\u200e", following]) == expected
        assert preprocessor.spell(["etc.", f"\u200b{following}"]) == expected
        assert preprocessor.spell(["etc.", "\u200b", following])[::2] == expected
    assert preprocessor.spell(["etc.", "und"]) != preprocessor.spell(["etc.", "Das"])


@pytest.mark.parametrize("kind", ["sentencepiece", "subword-nmt"])
def test_a_file_of_another_kind_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "wrong.file"
    for text in ("this is neither\n", "#version: 0.3\nd a\nda s\n"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=r"wrong\.file: not a"):
            Preprocessor(TextRules("de", subwords=kind, subword_file=path), len)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters=" \t\n"), min_size=1), min_size=1))
def test_any_words_have_owners_in_order(words: list[str]) -> None:
    ids, owners = ANYTHING(words)
    assert len(ids) == len(owners)
    assert owners == sorted(owners)
    assert set(owners) <= set(range(len(words)))


ANYTHING = Preprocessor(TextRules("de", "lower", "moses", "sentencepiece", MODEL / "de.spm"), len)


@pytest.mark.parametrize("tokenizer", ["moses", "none"])
def test_what_is_kept_of_a_word_is_for_its_place_alone(tokenizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preprocess, "CACHED_WORDS", 12)
    monkeypatch.setattr(preprocess, "LASTING", 8)
    rules = TextRules("de", "lower", tokenizer, "sentencepiece", MODEL / "de.spm")
    processor = sentencepiece.SentencePieceProcessor(model_file=str(MODEL / "de.spm"))
    keeping = Preprocessor(rules, processor.piece_to_id)
    words = ["etc.", "am", "Tag", "'", "\x07", "Nr.", "5", "etc."]
    sentences = [words[start:end] for start in range(8) for end in range(start, 9)]
    for sentence in [*sentences, *(pair.source for pair in example_pairs()), *sentences[::-1]]:
        keeping_none = Preprocessor(rules, processor.piece_to_id)
        assert keeping(sentence) == keeping_none(sentence)


def test_words_are_normalized_unless_the_dictionary_has_them() -> None:
    known = ["scho\u0308n", "T\u00fcr"]
    preprocessor = Preprocessor(TextRules("de"), lambda piece: [*known, piece].index(piece), known)
    assert preprocessor(["scho\u0308n", "Tu\u0308r", "\xad", "T\u00fc\xadr"]) == ([0, 1, 1], [0, 1, 3])


def test_two_models_share_a_side_that_both_read_alike() -> None:
    aligners = load("de-en-fast"), load("en-de-fast"), load("de-en-fast", options=ModelOptions(case="keep"))
    forward, reverse, other = (cast(ModelRecorder, aligner.forward.recorder).sides for aligner in aligners)
    assert forward == reverse[::-1]
    assert not {*forward} & {*other}


def test_moses_does_not_tear_decomposed_letters_apart() -> None:
    assert MosesTokenizer("de").tokenize("Tu\u0308r", escape=False) == ["Tu", "\u0308", "r"]
    assert moses_words("de", ("scho\u0308n", "\xad", "Tu\u0308\xadr.")) == (["sch\u00f6n", "T\u00fcr", "."], [0, 2, 2])


@pytest.mark.parametrize("language", ["de", "en", "fr", "ru"])
def test_punctuation_that_is_normalized_first_is_that_of_the_sentence(language: str) -> None:
    """As the tokenizer of FSMT does it: in `dogs’ „Ja.“ x` an apostrophe and a quote depend on the next word."""
    normal, moses = moses_normalizer(language), MosesTokenizer(language)
    of_words = Preprocessor(
        TextRules(language, tokenizer="moses-escaped"), lambda piece: 0, (), lambda token, first: [token], normal
    )
    for line in ("the dogs’ house", "er sagte „Ja.“ und ging.“", "a… ‚b‘ etc。 und No。 3", "«Oui.» l’ été d’«un» …"):
        pieces = [piece for word in of_words.spell(line.split(" ")) for piece in word]
        assert pieces == moses.tokenize(normal(line))
