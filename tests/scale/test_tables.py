"""Tables in, tables out: what an aligner says of each row, however Arrow holds and cuts its strings."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from align import Aligner, Alignment, DataError, align_table, load, two_way
from align.jobs import tables
from tests import toy
from tests.scale.jobs import strings

pa = pytest.importorskip("pyarrow")

KINDS = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.uint32(), pa.large_string()),
]
AGREEMENT = pa.list_(pa.float32())
LINKS = pa.list_(pa.struct({"source": pa.int32(), "target": pa.int32(), "score": pa.float32()}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("toy")


@pytest.fixture(scope="module")
def one(folder: Path, one_thread: None) -> Aligner:
    return load(toy.save_model(folder / "de-en"), threshold=0.1, device="cpu")


@pytest.fixture(scope="module")
def both(folder: Path, one: Aligner) -> Aligner:
    return two_way(one, load(toy.save_reverse_model(folder / "en-de"), device="cpu"), threshold=0.05)


def sentences(words: list[str]) -> st.SearchStrategy[str | None]:
    known = st.lists(st.sampled_from(words), max_size=50).map(" ".join)  # the model takes 40 pieces
    return (
        st.none()
        | known
        | st.sampled_from(["", " \t ", "\n", "\u00a0", "\0", "\ud7ff \U0001f600"])
        | st.text(max_size=9)
    )


rows = st.lists(st.tuples(sentences(toy.SOURCE_WORDS), sentences(toy.TARGET_WORDS)), max_size=12)


@st.composite
def made(draw: st.DrawFn) -> tuple[list[tuple[str | None, str | None]], Any]:
    """Rows, and a table of them in chunks, of which the first rows of a longer one were cut off."""
    content, kinds = draw(rows), [draw(st.sampled_from(KINDS)) for _ in range(2)]
    more = draw(st.integers(0, 2))
    columns = []
    for side, kind in enumerate(kinds):
        values = ["das"] * more + [row[side] for row in content]
        cuts = [0, *sorted(draw(st.lists(st.integers(0, len(values)), max_size=3))), len(values)]
        chunks = [array_of(values[a:b], kind) for a, b in pairwise(cuts)]
        columns.append(pa.chunked_array(chunks, kind))
    table = pa.table([pa.array(range(more + len(content)), pa.uint16()), *columns], names=["n", "de", "en"])
    return content, table.slice(more)


def array_of(values: list[str | None], kind: Any) -> Any:
    """Strings as Arrow's array of some type."""
    if not pa.types.is_dictionary(kind):
        return pa.array(values, kind)
    return pa.array(values, kind.value_type).dictionary_encode().cast(kind)


def expected(aligner: Any, content: list[tuple[str | None, str | None]]) -> list[tuple[Alignment, str]]:
    """Alignments of rows, by the aligner itself, and their status."""
    pairs = [(source or "", target or "") if None not in (source, target) else ("", "") for source, target in content]
    found: list[tuple[Alignment, str]] = []
    for row, alignment in zip(content, tables.for_rows(aligner)(pairs), strict=True):
        status = "null" if None in row else "blank" if alignment.pair.blank else alignment.skipped
        found.append((alignment, status))
    return found


@settings(max_examples=60)
@given(made())
def test_links_are_those_of_the_aligner(one: Aligner, both: Aligner, case: Any) -> None:
    content, table = case
    for aligner in (one, both):
        wanted = expected(aligner, content)
        found = align_table(table, aligner, "de", "en", "n")
        assert found.schema == pa.schema(
            {"n": pa.uint16(), "links": LINKS, "agreement": AGREEMENT, "status": pa.string()}
        )
        assert found.column("n").equals(table.column("n"))
        assert not found.column("links").null_count + found.column("status").null_count
        for row, (alignment, status) in zip(found.to_pylist(), wanted, strict=True):
            assert row["status"] == status
            assert [(link["source"], link["target"]) for link in row["links"]] == list(alignment)
            scores = [alignment.scores[link] for link in alignment]
            assert [link["score"] for link in row["links"]] == pytest.approx(scores, rel=1e-6)
            assert row["agreement"] == (alignment.agreement and pytest.approx(alignment.agreement, rel=1e-6))
        written = align_table(table, aligner, "de", "en", links="pharaoh")
        assert written.schema == pa.schema({"links": pa.string(), "status": pa.string()})
        assert written.column("links").to_pylist() == [str(alignment) for alignment, _ in wanted]
        assert written.column("status").equals(found.column("status"))


def text(count: int) -> list[tuple[str, str]]:
    """Pairs of the toy model's words."""
    numbers = [[n * k % 10 for k in range(1, 4 + n % 3)] for n in range(count)]
    return [
        (" ".join(toy.SOURCE_WORDS[k] for k in some), " ".join(toy.TARGET_WORDS[k] for k in some)) for some in numbers
    ]


def table_of(pairs: list[tuple[str, str]], **more: Any) -> Any:
    return pa.table({"source": [source for source, _ in pairs], "target": [target for _, target in pairs], **more})


def test_links_do_not_depend_on_the_table_that_a_row_is_in(one: Aligner) -> None:
    pairs = text(65)  # enough to choose by
    soft = replace(one, forward=replace(one.forward, scorer=None))
    assert list(map(str, soft(pairs))) != list(map(str, soft.fixed()(pairs)))  # as this text would have it
    whole = align_table(table_of(pairs), soft, links="pharaoh")
    parts = [align_table(part, soft, links="pharaoh") for part in table_of(pairs).to_batches(max_chunksize=7)]
    assert pa.concat_tables(parts).to_pylist() == whole.to_pylist()


def test_what_is_not_utf8_has_a_status(one: Aligner) -> None:
    text = strings([b"das haus", b"das \xff", b"\xed\xa0\x80", b"das haus"])
    for column in (text, text.dictionary_encode()):
        table = pa.table({"source": column, "target": ["the house", "the house", "\u00e4", None]})
        found = align_table(table, one, links="pharaoh")
        assert found.column("status").to_pylist() == ["", "not UTF-8", "not UTF-8", "null"]
        assert found.column("links").to_pylist()[1:] == ["", "", ""]


def test_a_batch_is_taken_as_a_table_is_and_the_id_is_as_it_was(one: Aligner) -> None:
    pairs = text(5)
    ids = pa.array(["a", "b", "a", None, "b"]).dictionary_encode()
    field = pa.field("key", ids.type, metadata={"of": "mine"})
    schema = pa.schema([field, ("source", pa.string()), ("target", pa.string())], metadata={"file": "x"})
    batch = pa.record_batch([ids, *zip(*pairs, strict=True)], schema=schema)
    found = align_table(batch, one, id="key")
    assert found.schema.field("key").equals(field, check_metadata=True)
    assert found.column("key").chunk(0).equals(ids)
    assert found.equals(align_table(pa.Table.from_batches([batch]), one, id="key"))


TABLE = pa.table({"id": [1], "de": ["das"], "en": ["the"], "words": [["das"]], "raw": [b"das"], "links": ["0-0"]})


TWICE = pa.table([["das"], ["the"], ["das"]], names=["de", "en", "de"])
STRINGS = "expected strings: cast it, or name another with"


@pytest.mark.parametrize(
    ("table", "arguments", "message"),
    [
        (
            TABLE,
            {"source": "src"},
            "no column 'src': the table has 'id', 'de', 'en', 'words', .*: name one with source",
        ),
        (TABLE, {"id": "key"}, "no column 'key': .*: name one with id"),
        (TWICE, {}, "2 columns 'de': the table has 'de', 'en', 'de': name one with source"),
        (TABLE, {"target": "id"}, f"column 'id' is of type int64, {STRINGS} target"),
        (TABLE, {"id": "links"}, "column 'links': the result has a column of that name: rename it"),
        (pa.table({"\x1b[31m" * 99: ["das"]}), {}, r"no column 'de': the table has '\\x1b\[31m.{60,70}…: name one .*"),
    ],
)
def test_columns_that_do_not_fit_are_named(one: Aligner, table: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=f"^{message}$"):
        align_table(table, one, **{"source": "de", "target": "en", **arguments})


def test_other_arguments_that_do_not_fit(one: Aligner) -> None:
    with pytest.raises(ValueError, match="links must be one of structs, pharaoh; got 'naacl'"):
        align_table(TABLE, one, "de", "en", links="naacl")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="table must be a pyarrow Table or RecordBatch; got dict"):
        align_table({"source": ["das"], "target": ["the"]}, one)
