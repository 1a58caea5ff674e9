"""A little of `scripts/fuzz markup`, and whether it sees what goes wrong."""

from __future__ import annotations

import pytest

from tests.hostile import fuzz_markup


def test_taggings_come_out_whole() -> None:
    assert [found for number in range(500) if (found := fuzz_markup.fault(7, number))] == []


def test_faults_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    transfer = fuzz_markup.transfer_markup

    def spoilt(source: str, target: str, *rest: object, **named: object) -> object:
        made = transfer(source, target, *rest, **named)  # type: ignore[arg-type]
        return made._replace(text=made.text.replace("</", "<x/></", 1))

    monkeypatch.setattr(fuzz_markup, "transfer_markup", spoilt)
    assert any(fuzz_markup.fault(7, number).startswith("other tags") for number in range(20))
