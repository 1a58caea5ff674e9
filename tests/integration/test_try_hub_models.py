"""`scripts/try_hub_models`: toy models in place of published ones, and what cannot be loaded."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from align import Pair, load
from tests import causal, hugging
from tests.conftest import ROOT

pytest.importorskip("transformers")

script = runpy.run_path(str(ROOT / "scripts" / "try_hub_models"))
PAIRS = [("das haus ist alt .", "the house is old ."), ("wir sehen", "we see the house")]


@pytest.mark.parametrize("kind", ["marian", "m2m_100", "t5"])
def test_the_loss_is_that_of_transformers(kind: str, tmp_path: Path) -> None:
    model = hugging.save_model(kind, tmp_path)
    recorder: Any = load(tmp_path, device="cpu", options=hugging.options(kind)).forward.recorder
    english = [4 + len(hugging.WORDS) + 27 + 1] if kind in hugging.MULTILINGUAL else []  # which the decoder reads next
    losses: list[float] = []
    for number, (source, target) in enumerate(PAIRS, 1):
        pieces = recorder.encode(Pair(tuple(source.split()), tuple(target.split()), number))
        wanted = [*pieces.target, model.config.eos_token_id]
        start = [model.config.decoder_start_token_id, *english]
        with torch.inference_mode():
            logits = model(
                input_ids=torch.tensor([list(pieces.source)]), decoder_input_ids=torch.tensor([[*start, *wanted[:-1]]])
            ).logits[0, len(start) - 1 :]
            logits[:, model.config.pad_token_id] = float("-inf")
        losses += (-logits.log_softmax(1)[range(len(wanted)), wanted]).tolist()
    assert script["loss_of"](recorder, PAIRS) == pytest.approx(sum(losses) / len(losses), rel=1e-4)


def test_each_model_is_a_row_and_what_fails_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    causal.save(tmp_path / "llama", max_position_embeddings=600)
    (tmp_path / "models.tsv").write_text(
        f"de-en-fast\tfairseq\tde\ten\nnobody/nothing\tMarian\tde\ten\n"
        f"{tmp_path}/llama\tdecoder-only\tde\ten\nno_package/models/*\tMarian\n"
    )
    page = tmp_path / "page.md"
    old = "| de-en-fast | fairseq | – | – | – | – | gone |\n| kept | Marian | 1.00 | 9 of 9 | 1 MB | 1 | read |\n"
    page.write_text(
        f"before\n\n{script['MARKS'][0]}| model |\n|---|\n{old}{script['MARKS'][1]}after\n", encoding="utf-8"
    )
    monkeypatch.setattr(sys, "argv", ["try_hub_models", "--models", f"{tmp_path}/models.tsv", "--page", str(page)])
    script["main"]()
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split("\t")[1:] == [*script["COLUMNS"]]
    rows = {fields[0]: dict(zip(script["COLUMNS"], fields, strict=True)) for fields in (x.split("\t") for x in lines)}
    fast, missing, llama, package = rows.values()
    assert (fast["result"], fast["loss"]) == ("read", "")
    assert fast["right"].endswith(" of 50")
    assert int(fast["right"].split()[0]) >= 45
    assert len(fast["links"].split()) == 50
    assert missing["result"] == "not tried: no network"
    assert llama["result"] == "read"
    assert float(llama["loss"]) > 1
    assert package["result"] == "no_package is not installed"
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n\n<!--")
    assert text.endswith("-->\nafter\n")
    assert [line.split(" | ")[0][2:] for line in text.splitlines() if line.startswith("| ")][1:] == [
        "de-en-fast", "kept", *[*rows][1:],
    ]  # fmt: skip
    assert "gone" not in text

    monkeypatch.setattr(sys, "argv", [*sys.argv, "--only", "nobody/nothing"])
    script["main"]()
    assert page.read_text(encoding="utf-8") == text
