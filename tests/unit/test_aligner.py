"""The choice of layer and head on a model whose attention is known, without any real one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import torch

from align import Aligner, Cell, Pair, Settings
from align.types import Batch, CrossAttention, Pieces

RIGHT = Cell(2, 3)


class KnownRecorder:
    """Three layers of three heads; all attend at random but one, which reads the source word of the same number.

    Words are numbers; "-" is a word without a piece.
    """

    name, text, dtype, device = "known", "numbers", "float32", "cpu"
    layers, heads, max_positions = 3, 3, (100, 100)
    pad, unk = 1, 3

    def encode(self, pair: Pair) -> Pieces:
        source = [(int(word) + 10, i) for i, word in enumerate(pair.source) if word != "-"]
        target = [(int(word) + 10, j) for j, word in enumerate(pair.target) if word != "-"]
        return Pieces(
            [*(n for n, _ in source), 2], [*(i for _, i in source), -1],
            [n for n, _ in target], [j for _, j in target], (len(pair.source), len(pair.target)),
        )  # fmt: skip

    def record(self, batch: Batch, layers: Sequence[int]) -> Iterator[CrossAttention]:
        generator = torch.Generator().manual_seed(int(batch.source.sum()))
        size, steps, length = batch.source.shape[0], batch.target.shape[1] + 1, batch.source.shape[1]
        copies = (batch.target.unsqueeze(2) == batch.source.unsqueeze(1)).float()  # [B, T, S]
        copies = torch.nn.functional.pad(copies, (0, 0, 1, 0))  # read at the step after </s>
        for layer in layers:
            weights = torch.rand(size, 3, steps, length, generator=generator)
            if layer == RIGHT.layer:
                weights[:, RIGHT.head - 1] = copies + 1e-3
            weights *= (batch.source != self.pad)[:, None, None, :]
            yield CrossAttention(layer, weights, torch.ones(size, 3, length, 1), torch.ones(3, 1, 1))


def pairs(count: int) -> list[tuple[str, str]]:
    """Permutations of a few words, some lines with words without pieces, also as the last ones of the longest."""
    generator = torch.Generator().manual_seed(0)
    found = []
    for n in range(count):
        words = torch.randperm(12, generator=generator)[: 3 + n % 5].tolist()
        order = torch.randperm(len(words), generator=generator).tolist()
        extra = " -" if n % 3 == 0 else ""
        found.append((" ".join(map(str, words)) + extra, " ".join(str(words[i]) for i in order) + extra * 4))
    return found


@pytest.mark.parametrize("score", ["weight", "norm"])
@pytest.mark.parametrize("batch_tokens", [1, 60, 2000])
def test_auto_finds_the_one_right_head_and_gives_the_first_buffer_its_links(score: str, batch_tokens: int) -> None:
    aligner = Aligner(KnownRecorder(), Settings(score), batch_tokens=batch_tokens, buffer=80)  # type: ignore[arg-type]
    text = pairs(200)
    found = list(aligner(text))
    assert aligner.cell == RIGHT
    assert "over 80 pairs" in aligner.reason
    for (source, target), alignment in zip(text, found, strict=True):
        words = source.split(), target.split()
        expected = {(words[0].index(word), j) for j, word in enumerate(words[1]) if word != "-"}
        assert alignment.links == expected


@pytest.mark.parametrize(("settings", "cell"), [(Settings(layer=2), Cell(2, 3)), (Settings(head=3), Cell(2, 3))])
def test_what_is_fixed_stays_fixed(settings: Settings, cell: Cell) -> None:
    aligner = Aligner(KnownRecorder(), settings)
    list(aligner(pairs(60)))
    assert aligner.cell == cell


def test_a_first_buffer_of_blank_lines_decides_nothing() -> None:
    aligner = Aligner(KnownRecorder(), Settings(), buffer=60)
    assert len(list(aligner([("", "")] * 60 + pairs(60)))) == 120
    assert aligner.cell == RIGHT
