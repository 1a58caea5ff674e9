"""What `extract-align view` writes, as whoever opens it sees and uses it."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import pytest

from align.core.types import Cell, Pair
from align.view.page import Attention, make_page
from tests.browser.toy_page import GOLD, ONE, TEXT, TWO, Visit, lines, numbers, system


@pytest.fixture
def page(visit: Visit) -> Any:
    """Two systems and gold, in the order of the file, with the links of the words pointed at only."""
    made = visit(make_page(TEXT, [ONE, TWO], GOLD, signature="AER|x"))
    made.select_option("#order", "file")
    made.uncheck("#all")
    return made


def test_the_first_screen_has_links(visit: Visit) -> None:
    page = visit(make_page(TEXT, [ONE, TWO], GOLD))
    assert [[*panel] for panel in lines(page, 3)] == [["0-0", "1-1"]] * 3
    assert page.locator("#pair-3 .curve").first.is_visible()


def test_filters_and_order(page: Any) -> None:
    assert numbers(page) == ["1", "2", "3"]
    page.fill("#find", "haus ist")
    assert numbers(page) == ["1"]
    assert page.inner_text("#count") == "1 of 3 shown"
    page.fill("#find", "HERE")
    assert numbers(page) == ["2"]
    page.fill("#find", "nowhere")
    assert page.inner_text("#list") == "No sentence is like that."
    page.fill("#find", "")
    page.select_option("#show", "errors")
    assert numbers(page) == ["1", "2"]
    page.select_option("#system", "1")
    assert numbers(page) == []
    page.select_option("#show", "differ")
    assert numbers(page) == ["1", "2"]
    page.select_option("#show", "all")
    page.select_option("#system", "0")
    page.select_option("#order", "aer")
    assert numbers(page) == ["2", "1", "3"]
    assert page.locator("#pair-2 .rate").all_inner_texts()[0].split()[1:] == ["60.0", "1", "wrong", "2", "missing"]


def test_gold_beside_systems_in_numbers_signs_and_colours(page: Any) -> None:
    assert page.locator("#summary tbody tr").all_inner_texts() == ["one\t31.3\t8\t2\t3", "two\t0.0\t8\t0\t0"]
    assert page.inner_text("#signature") == "AER|x"
    assert page.locator("#legend li").all_inner_texts() == [
        *("found", "possible, found", "wrong", "missing", "possible, left out")
    ]
    look = "nodes => nodes.map(node => [node.getAttribute('d'), ...['stroke', 'fill']"
    look += ".map(name => getComputedStyle(node)[name])])"
    looks = page.locator("#legend path").evaluate_all(look)
    assert len({(shape, fill) for shape, _, fill in looks}) == 5  # no two differ by their colour alone
    assert len({colour for _, colour, _ in looks}) == 4  # what is possible, and found, is coloured as what is found
    assert [word.inner_text() for word in page.locator("#pair-1 .has-wrong").all()] == ["Haus", "is"]
    assert [word.inner_text() for word in page.locator("#pair-2 .has-missing").all()] == ["sehen", "es", "see", "it"]


def test_keys(page: Any) -> None:
    pressed, focused = page.keyboard.press, "document.activeElement"
    pressed("j")
    assert page.evaluate(f"{focused}.id") == "pair-1"
    pressed("j")
    pressed("k")
    pressed("ArrowRight")
    pressed("ArrowRight")
    assert page.evaluate(f"{focused}.textContent") == "Haus"
    assert lines(page, 1)[1] == {"1-1": "found", "1-2": "wrong"}
    pressed("Enter")
    pressed("ArrowLeft")
    assert lines(page, 1)[1] == {"0-0": "found", "1-1": "found", "1-2": "wrong"}
    pressed("Escape")
    assert lines(page, 1) == [{}, {}, {}]
    pressed("m")
    assert page.locator("#pair-1 .grid").count() == 3
    pressed("m")
    assert page.locator("#pair-1 .grid").count() == 0
    pressed("a")
    assert len(lines(page, 1)[0]) == 5
    pressed("/")
    page.keyboard.type("tag")
    assert numbers(page) == ["3"]
    pressed("Escape")
    assert page.input_value("#find") == "tag"
    pressed("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    pressed("?")
    assert page.locator("#help").is_visible()
    pressed("Escape")
    assert not page.locator("#help").is_visible()


def test_attention_of_each_layer_and_head(visit: Visit) -> None:
    """Shares count on in each pair, so that a number out of place is another number."""
    cells = [Cell(layer, head) for layer in (1, 2) for head in ("all", 1)]
    shares = [bytes(n % 101 for n in range(2 * 4 * len(p.target) * (len(p.source) + 1))) for p in TEXT[:1]]
    attention = Attention("toy", "output", ("weight", "norm"), cells, Cell(2, 1), shares)
    page = visit(make_page(TEXT, [ONE], GOLD, attention))
    page.select_option("#order", "file")
    read = "nodes => nodes.map(node => [...node.querySelectorAll('td.heat')].map(cell => Math.round(100 * cell.title)))"
    maps = page.locator("#pair-1 .attention table")
    maps.nth(1).wait_for()

    def expected(score: int, cell: int) -> list[int]:
        start = (score * 4 + cell) * 4 * 5
        return [shares[0][start + j * 5 + i] for i in range(5) for j in range(4)]

    assert page.locator("#pair-1 caption").all_inner_texts() == ["weight, layer 2, head 1", "norm, layer 2, head 1"]
    assert maps.evaluate_all(read) == [expected(0, 3), expected(1, 3)]
    page.select_option("#layer", "1")
    page.select_option("#head", "all")
    page.get_by_text("norm, layer 1, all heads").wait_for()
    assert maps.evaluate_all(read) == [expected(0, 0), expected(1, 0)]
    assert maps.nth(0).locator("tbody th").all_inner_texts() == [*TEXT[0].source, "</s>"]
    assert maps.nth(0).locator("td.framed").count() == 5  # gold's links
    maps.nth(1).locator('td[data-cell="1-1"]').hover()
    assert maps.nth(1).locator("th.active").all_inner_texts() == ["house", "Haus"]
    assert lines(page, 1) == [{"1-1": "sure"}, {"1-1": "found"}]
    assert page.locator("#pair-2 .attention").count() == 0  # beyond those that have it
    assert page.inner_text("#about") == "3 sentence pairs · attention of toy, output position"
    page.uncheck("#attention")
    assert page.locator(".attention").count() == 0


LONG = Pair(tuple(f"Wort{n}" for n in range(60)), tuple(f"word{n}" for n in range(60)), 1)


def test_a_long_sentence_fades_where_it_goes_on_and_follows_the_keys(visit: Visit) -> None:
    page = visit(make_page([LONG, TEXT[1]], [system("one", "0-0 59-59", "0-0")]))
    row = page.locator("#pair-1 .panels")
    seen = "node => [node.classList.contains('cut-left'), node.classList.contains('cut-right'), node.scrollLeft > 0]"
    assert row.evaluate(seen) == [False, True, False]
    assert page.locator("#pair-2 .panels").evaluate(seen) == [False, False, False]
    assert "linear-gradient" in row.evaluate("node => getComputedStyle(node).maskImage")
    page.locator("#pair-1").focus()
    page.keyboard.press("ArrowLeft")  # to the last word
    page.locator(".panels.cut-left:not(.cut-right)").wait_for()
    last, reading = (page.locator(f"#pair-1 {part}").bounding_box() for part in (".source [data-word=s59]", ".read"))
    assert 0 < reading["x"] < last["x"] + last["width"] < 1300


@pytest.mark.parametrize("width", [390, 1300])
def test_nothing_of_the_page_is_cut_and_no_band_is_blank(visit: Visit, width: int) -> None:
    page = visit(make_page(TEXT, [ONE, TWO], GOLD), width=width)
    boxes = page.locator("#top *, #overview *, .card, .card > *").evaluate_all(
        "nodes => nodes.map(node => node.getBoundingClientRect()).filter(box => box.width).map(box => box.right)"
    )
    assert max(boxes) <= width
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.uncheck("#matrix")
    target, card = (page.locator(part).last.bounding_box() for part in ("#pair-3 .target", "#pair-3"))
    assert card["y"] + card["height"] - target["y"] - target["height"] < 40


RIGHT_TO_LEFT = [
    ("NATO تعلن عن 3 قرارات .", "NATO announces 3 decisions ."),
    ("وصل 12 سائحا ( من Berlin ) أمس", "12 tourists ( from Berlin ) came yesterday"),
    ("דני קנה 3 ספרים ב- Amazon !", "Dani bought 3 books at Amazon !"),
]
LEFT_TO_RIGHT = [
    ("The word سلام means peace", "Das Wort سلام bedeutet Frieden"),
    ("मारिया 2010 से बर्लिन में रहती है ।", "มาเรีย อาศัย อยู่ ใน เบอร์ลิน"),
    ("玛丽亚 住 在 柏林 。", "( 1 , 2 )"),
]


def test_words_are_in_the_order_of_their_sentence_in_every_script(visit: Visit) -> None:
    sides = [*RIGHT_TO_LEFT, *LEFT_TO_RIGHT]
    text = [Pair(tuple(source.split()), tuple(target.split()), n) for n, (source, target) in enumerate(sides, 1)]
    page = visit(make_page(text, [system("one", *["0-0"] * len(text))]), height=2500)
    left = "nodes => nodes.map(node => node.getBoundingClientRect().left)"
    for pair in text:
        for side, given in (("source", pair.source), ("target", pair.target)):
            words = page.locator(f"#pair-{pair.id} .sentence.{side} .word")
            assert tuple(words.all_text_contents()) == given
            places = words.evaluate_all(left)
            is_right_to_left = side == "source" and pair.id <= len(RIGHT_TO_LEFT)
            assert places == sorted(places, reverse=is_right_to_left)
    look = "nodes => nodes.map(getComputedStyle).map(({ direction, unicodeBidi }) => `${direction} ${unicodeBidi}`)"
    styles = page.locator("#pair-2 .sentence.source .word").evaluate_all(look)
    assert [styles[n] for n in (3, 6)] == ["rtl isolate"] * 2  # mirrored brackets
    assert styles[5] == "rtl plaintext"  # Berlin, in its own direction
    line, word = (page.locator(f"#pair-2 {part}").first.bounding_box() for part in (".curve", ".word"))
    assert line["x"] + line["width"] == pytest.approx(word["x"] + word["width"] / 2, abs=6)  # half a letter


def test_signs_of_lines_that_cross_in_one_point_are_apart(visit: Visit) -> None:
    pair = Pair(tuple(RIGHT_TO_LEFT[1][0].split()), tuple(RIGHT_TO_LEFT[1][1].split()), 1)
    page = visit(make_page([pair], [system("one", " ".join(f"{n}-{n}" for n in range(8)))]))
    page.uncheck("#matrix")
    boxes = [shape.bounding_box() for shape in page.locator(".line .shape").all()]
    places = [(box["x"], box["y"]) for box in boxes]
    assert len(places) == 8
    assert min(math.dist(one, other) for one, other in combinations(places, 2)) > 10
