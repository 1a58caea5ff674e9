"""Labels along links, and the columns they come in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.core.errors import DataError, LineError
from align.transfer.columns import Labelled, format_labelled, pair_sentences, read_column, read_labelled
from align.transfer.labels import Span, project_labels, project_words, read_bio, write_bio
from align.transfer.windows import Scores

SPANS = st.lists(st.tuples(st.sampled_from(["PER", "LOC"]), st.integers(1, 3), st.integers(0, 2)), max_size=4)


@given(sizes=SPANS)
def test_labels_of_a_sentence_projected_onto_itself_are_the_same(sizes: list[tuple[str, int, int]]) -> None:
    spans: list[Span] = []
    at = 0
    for label, size, gap in sizes:
        spans.append((label, (at + gap, at + gap + size)))
        at += gap + size
    found = project_labels(spans, {(n, n) for n in range(at)}, at, at)
    assert read_bio(write_bio(found, at + 1)) == spans


def test_other_ways_to_write_labels() -> None:
    expected = [("PER", (0, 2)), ("LOC", (2, 3)), ("LOC", (3, 5))]
    assert read_bio(["I-PER", "I-PER", "I-LOC", "B-LOC", "I-LOC", "O"]) == expected
    assert read_bio(["B-PER", "E-PER", "S-LOC", "B-LOC", "E-LOC", "O"]) == expected
    for bad in ("PER", "B-", "X-PER", ""):
        with pytest.raises(ValueError, match="is not a label such as B-PER"):
            read_bio([bad])


def test_spans_are_projected_apart_and_layers_are_not() -> None:
    scores = {(0, 2): 0.9, (1, 3): 0.8, (1, 0): 0.11, (2, 1): 1.0}
    spans = [("PER", (0, 2)), ("LOC", (2, 3)), ("ALL", (0, 3)), ("NONE", (3, 4))]
    found = project_labels(spans, scores, 4, 5)
    assert [(one.tag, one.target) for one in found] == [
        *(("PER", ((2, 4),)), ("LOC", ((1, 2),)), ("ALL", ((0, 4),)), ("NONE", ()))
    ]
    assert [round(one.confidence, 2) for one in found] == [0.97, 1.0, 1.0, 0.0]
    with pytest.raises(ValueError, match="a span of words 3 to 5, and there are 4"):
        project_labels([("A", (3, 5))], {}, 4, 4)


def test_columns_come_back() -> None:
    lines = ["EU rejects B-ORG", "is O", "", "", "10 Haus\tX\tB-LOC"]
    sentences = list(read_labelled(lines, "a", "bio"))
    assert sentences == [
        Labelled(("EU", "is"), ("B-ORG", "O")),
        Labelled((), ()),
        Labelled(("10\xa0Haus",), ("B-LOC",)),
    ]
    assert format_labelled(sentences[0], "bio") == "EU\tB-ORG\nis\tO\n\n"


CONLLU = """\
# newdoc id = d
# sent_id = d-1
# text = Zum Haus.
1-2\tZum\t_\t_\t_\t_\t_\t_\t_\t_
1\tZu\tzu\tADP\tAPPR\t_\t3\tcase\t_\t_
2\tdem\tder\tDET\tART\tCase=Dat|Gender=Neut\t3\tdet\t_\tner=B-ORG
3\tHaus\tHaus\tNOUN\tNN\t_\t0\troot\t_\tSpaceAfter=No|Gloss=house
3.1\t(ja)\t_\tX\t_\t_\t_\t_\t_\t_
4\t.\t.\tPUNCT\t$.\t_\t3\tpunct\t_\t_

"""


@pytest.mark.parametrize(
    ("name", "column", "labels"),
    [
        ("upos", "UPOS", ("ADP", "DET", "NOUN", "PUNCT")),
        ("FEATS", "FEATS", ("_", "Case=Dat|Gender=Neut", "_", "_")),
        ("misc:gloss", "MISC:gloss", ("_", "_", "house", "_")),
        ("ner", "NER", ("O", "B-ORG", "O", "O")),
    ],
)
def test_every_column_of_conllu(name: str, column: str, labels: tuple[str, ...]) -> None:
    assert read_column(name) == column
    (sentence,) = read_labelled(CONLLU.split("\n")[:-1], "a", column)
    comments = ("# newdoc id = d", "# sent_id = d-1", "# text = Zum Haus.")
    assert sentence == Labelled(("Zu", "dem", "Haus", "."), labels, comments)
    other = sentence._replace(words=("to", "the", "house", "."))
    written = format_labelled(other, column)
    begin = ["# newdoc id = d", "# sent_id = d-1", "# text = to the house .", "# source_text = Zum Haus."]
    assert written.split("\n")[:4] == begin
    assert all(line.count("\t") == 9 for line in written.split("\n")[4:-2])
    (again,) = read_labelled(written.split("\n")[:-1], "a", column)
    assert again == other._replace(comments=tuple(begin))


@pytest.mark.parametrize("name", ["HEAD", "MISC:a=b", ""])
def test_columns_without_labels(name: str) -> None:
    with pytest.raises(ValueError, match=r"is not a column with labels: LEMMA, UPOS, .*, DEPREL, NER or MISC:KEY"):
        read_column(name)


def test_a_label_of_each_word() -> None:
    lines = ["# sent_id = 1", "#\tSYM", "EU rejects PROPN", "# SYM", ""]
    (sentence,) = read_labelled(lines, "a", "words")
    assert sentence == Labelled(("#", "EU", "#"), ("SYM", "PROPN", "SYM"))
    assert format_labelled(sentence, "words") == "#\tSYM\nEU\tPROPN\n#\tSYM\n\n"


scores = st.dictionaries(
    st.tuples(st.integers(0, 4), st.integers(0, 5)), st.sampled_from([0.1, 0.25, 0.5, 1.0]), max_size=12
)


@given(scores, st.sampled_from([0.0, 0.3]))
def test_best_source_words(scores: dict[tuple[int, int], float], least: float) -> None:
    words = project_words("abcde", Scores(scores, 5, 6), least)
    assert [(word.tag, word.source) for word in words] == [(label, (n, n + 1)) for n, label in enumerate("abcde")]
    found = {j: word.source[0] for word in words for j, _ in word.target}
    for j in range(6):
        ranked = sorted(
            (-score, sum(other for (k, _), other in scores.items() if k == source), source)
            for (source, target), score in scores.items()
            if target == j and score > least
        )
        assert found.get(j) == (ranked[0][2] if ranked else None)


def test_comments_before_a_sentence() -> None:
    comments = ["# id 5", "# a\tb", "# id a\tdomain=train O", "# text = EU O"]
    words = ["#ner=1\tO", "EU B-ORG", "# O"]
    expected = [Labelled(("#ner=1", "EU", "#"), ("O", "B-ORG", "O"))]
    assert list(read_labelled([*comments, *words, ""], "a", "bio")) == expected
    with pytest.raises(LineError, match="a, line 4: '5' is not a label such as B-PER"):
        list(read_labelled([*words, "# id 5"], "a", "bio"))


@pytest.mark.parametrize(
    ("text", "targets", "expected"),
    [
        ("a O||b O|", ["x", "y"], "a x|b y"),
        ("|a O|||b O|||", ["x", "y"], "a x|b y"),
        ("a O|||b O|", ["x", "", "y"], "a x| |b y"),
        ("a O|||", ["x", ""], "a x| "),
        ("a O|||b O|", ["x", ""], "sentences has 3 lines, targets has 2"),
        ("a O|", ["x", "y"], "sentences has 1 line, targets has 2"),
    ],
)
def test_blank_lines_between_sentences(text: str, targets: list[str], expected: str) -> None:
    sentences = read_labelled(text.split("|"), "a", "bio")
    pairs = pair_sentences(sentences, targets, ("sentences", "targets"))
    if expected.startswith("sentences"):
        with pytest.raises(DataError, match=expected):
            list(pairs)
    else:
        assert [f"{' '.join(sentence.words)} {target}" for sentence, target in pairs] == expected.split("|")


@pytest.mark.parametrize(
    ("column", "line", "what"),
    [
        ("bio", "word", "a.txt, line 2: expected a word and a label"),
        ("bio", "word X", "a.txt, line 2: 'X' is not a label .*: for one label per word, .* use tags=\"words\""),
        ("NER", "1\tEU" + "\t_" * 7 + "\tNER=X", "line 2: 'X' is not a label .*: .* use column=\"MISC:NER\""),
        ("NER", "1\tEU", "a.txt, line 2: expected 10 TAB-separated columns.*; got 2 columns, the first one '1'"),
        ("bio", "0\tFrau\tO\n1\tMerkel\tB-PER\n", "line 3: the first column .* a running number, .*: `cut -f 2-`"),
    ],
)
def test_columns_that_are_none_are_refused(column: str, line: str, what: str) -> None:
    with pytest.raises(LineError, match=what):
        list(read_labelled(["", *line.split("\n")], "a.txt", column))
