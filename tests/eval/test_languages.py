"""How often the check of languages warns, measured on toy texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.eval.conftest import Result, read_table

GERMAN = ["Der kleine Hund schläft lange unter dem alten Tisch.", "Wir haben gestern zwei neue Fahrräder gekauft."]
ENGLISH = ["The little dog sleeps long under the old table.", "Yesterday we bought two new bicycles."]
FRENCH = ["Le petit chien dort longtemps sous la vieille table.", "Hier nous avons acheté deux nouveaux vélos."]
OTHERS = """
[train.french]
source = "french.fr"
target = "train.en"
"""


def test_warnings_are_counted(data: Path, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    polib = pytest.importorskip("polib")
    monkeypatch.chdir(data)
    texts = {"train.de": GERMAN, "train.en": ENGLISH, "more.de": GERMAN, "more.en": ENGLISH, "french.fr": FRENCH}
    texts |= {"train.source": ["good-1"] * 2, "more.source": ["bad"] * 2}
    for name, lines in texts.items():
        Path(name).write_text("\n".join([*lines, ""]), encoding="utf-8")
    with Path("experiments.toml").open("a", encoding="utf-8") as config:
        config.write(OTHERS)
    for code, lines in (("de", GERMAN), ("fr", FRENCH)):
        catalog = polib.POFile()
        catalog.metadata = {"Content-Type": "text/plain; charset=utf-8"}
        catalog.extend(polib.POEntry(msgid=one, msgstr=other) for one, other in zip(ENGLISH, lines, strict=True))
        folder = Path("locale", code, "LC_MESSAGES")
        folder.mkdir(parents=True)
        for name in ("toy", "iso_toy"):
            catalog.save_as_mofile(str(folder / f"{name}.mo"))
    experiment = ("--data", ".", "--config", "experiments.toml", "--experiment", "toy")
    result = command("languages", *experiment, "--texts", "4", "--catalogs", "locale")
    assert result.code == 0, result.err
    sign, rows = read_table(data / "results" / "languages.tsv")
    assert sign.startswith("# languages|texts:4|py3langid:")
    found = {row.pop("text"): row for row in rows}
    for name in ("good-1", "bad", "messages", "names", "all"):
        assert {*found[f"right: {name}"].values()} == {"4" if name != "all" else "16", "0.00"}
    for name in ("swapped", "french", "messages, fr"):
        assert {*found[f"other: {name}"].values()} == {"4", "100.00"}
    assert len(found) == 8
