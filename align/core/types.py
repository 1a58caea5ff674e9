"""The nouns everything else speaks in: frozen dataclasses that check themselves and do nothing more."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from align.core.errors import printable, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torch import Tensor

Links = frozenset[tuple[int, int]]
"""Word alignment of one sentence pair: (source word, target word), both counted from 0."""

Span = tuple[int, int]
"""Where something begins and ends, as Python's slices count: from 0, the end left out."""

Score = Literal["norm", "weight"]
Position = Literal["input", "output"]
Dtype = Literal["float32", "bfloat16", "int8"]
"""Of the numbers that a model's linear layers multiply; all else is float32."""
DTYPES: tuple[Dtype, ...] = get_args(Dtype)

Part = Literal["encoder", "decoder", "cross"]
"""A Transformer's attention: the encoder's and the decoder's to themselves, and the decoder's to the encoder."""
PARTS: tuple[Part, ...] = get_args(Part)

Head = int | Literal["all"]
"""A head of a layer, from 1, or all of them together."""

Skipped = Literal["", "too long", "not UTF-8", "wrong fields"]
"""Why a line has no links although it is not blank; nothing where it is aligned."""


class TextWarning(UserWarning):
    """The text does not look like what the model was trained on."""


@dataclass(frozen=True, slots=True)
class Gold:
    """Hand-made links of one pair. `possible` holds the sure ones too.

    Raises:
        ValueError: a sure link is not among the possible.
    """

    sure: Links
    possible: Links

    def __post_init__(self) -> None:
        if not self.sure <= self.possible:
            raise ValueError("a sure link is not among the possible ones")


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence pair in the user's own words, never re-tokenised; `id` is its line number, from 1."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    id: int

    @property
    def blank(self) -> bool:
        """Whether a side has no word, so that there is nothing to align."""
        return not self.source or not self.target

    def memory(self) -> int:
        """Bytes that it takes, about."""
        words = (*self.source, *self.target)
        return sum(map(len, words)) + 64 * len(words)

    @property
    def spans(self) -> tuple[list[Span], list[Span]] | None:
        """Where the words of source and target stand in their lines; None unless those are kept, as `LinePair` does."""
        return None

    def with_target(self, words: tuple[str, ...]) -> Pair:
        """The same source with another target."""
        return Pair(self.source, words, self.id)


@dataclass(frozen=True, slots=True)
class Pieces:
    """What a model reads for one pair: dictionary ids, and for each id the word it is a part of.

    The last source id is `</s>`, whose word is -1; the target has no special ids but those, of word -1, that are given
    between others. `words` counts the pair's source and target words, (I, J): the last of them may have no piece.
    """

    source: Sequence[int]
    source_words: Sequence[int]
    target: Sequence[int]
    target_words: Sequence[int]
    words: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Batch:
    """Padded pieces of B pairs, pads at the end of each row.

    Attributes:
        source: ids `[B, S]`, `</s>` last in each row.
        source_words: word of each id `[B, S]`; -1 for `</s>`, -2 for a pad.
        target: ids `[B, T]`.
        target_words: word of each id `[B, T]`; -2 for a pad.
        words: the largest number of source and of target words, (I, J).
    """

    source: Tensor
    source_words: Tensor
    target: Tensor
    target_words: Tensor
    words: tuple[int, int]


@dataclass(frozen=True, slots=True)
class CrossAttention:
    """One decoder layer's encoder-decoder attention under teacher forcing.

    Attributes:
        layer: counted from 1 at the bottom, as in the paper's tables.
        weights: attention weights `[B, H, T+1, S]`; row 0 reads `</s>` and predicts the first piece. `[B, H, T, S]`
            where the rows of one position are left.
        values: value vectors with their bias `[B, H, S, d]`.
        out_proj: each head's share of the output projection, without its bias `[H, d, D]`.
        products: what `align.core.norms.head_products` makes of that, in float32, where the model keeps it: it
            costs as much as D source pieces do.
    """

    layer: int
    weights: Tensor
    values: Tensor
    out_proj: Tensor
    products: Sequence[Tensor] | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """A decoder layer, from 1, and one of its heads, or all of them together."""

    layer: int
    head: Head

    def __str__(self) -> str:
        return f"layer {self.layer}, " + ("all heads" if self.head == "all" else f"head {self.head}")


@dataclass(frozen=True, slots=True)
class Place:
    """Where alignments are read: a cell of the input position, of the output position, or of both.

    Raises:
        ValueError: neither.
    """

    input: Cell | None = None
    output: Cell | None = None

    def __post_init__(self) -> None:
        if not self.input and not self.output:
            raise ValueError("a place has a cell of one position at least")

    def cells(self) -> dict[Position, Cell]:
        """The cell to read in each position that is read."""
        cells: dict[Position, Cell | None] = {"input": self.input, "output": self.output}
        return {position: cell for position, cell in cells.items() if cell}

    def __str__(self) -> str:
        return "; output position: ".join(map(str, self.cells().values()))


@dataclass(frozen=True, slots=True)
class Choice:
    """A place, and how it was chosen, for messages; `consistency` is the lexical consistency there that chose it."""

    place: Place
    reason: str
    consistency: float | None = field(default=None, compare=False)

    def __str__(self) -> str:
        value = "" if self.consistency is None else f", {self.consistency:.2f}"
        return f"{self.place} ({self.reason}{value})"


@dataclass(frozen=True, slots=True)
class Alignment:
    """A pair and its links, with the share of its target word's total score that each link holds.

    `str()` is the Pharaoh line, `to_dict()` what `-f jsonl` writes, and a notebook shows a table. `skipped` says why
    a pair that has words, or a line that could not be read, got no links.
    """

    pair: Pair
    scores: Mapping[tuple[int, int], float]
    skipped: Skipped = ""

    @property
    def links(self) -> Links:
        """The links without their scores."""
        return frozenset(self.scores)

    @property
    def null(self) -> list[int]:
        """Target words without a link, in order."""
        linked = {j for _, j in self.scores}
        return [j for j in range(len(self.pair.target)) if j not in linked]

    @property
    def source_null(self) -> list[int]:
        """Source words without a link, in order."""
        linked = {i for i, _ in self.scores}
        return [i for i in range(len(self.pair.source)) if i not in linked]

    def to_dict(self) -> dict[str, Any]:
        """The pair and its links as numbers, strings and lists of them, which `json.dumps` takes.

        `id` is the pair's number, `source` and `target` are its words; `links` is in order, `scores` has the score of
        each, rounded to four digits; `null` has the target words without a link, `source_null` the source words
        without one. `source_spans` and `target_spans` have where each word begins and ends in its line, if the pair
        has kept its lines. `skipped` is there only if the pair was.
        """
        links = list(self)
        record: dict[str, Any] = {
            "id": self.pair.id,
            "source": [*self.pair.source],
            "target": [*self.pair.target],
            "links": [[i, j] for i, j in links],
            "scores": [round(self.scores[link], 4) for link in links],
            "null": self.null,
            "source_null": self.source_null,
        }
        if spans := self.pair.spans:
            record |= zip(("source_spans", "target_spans"), ([[*span] for span in side] for side in spans), strict=True)
        return {**record, "skipped": self.skipped} if self.skipped else record

    def _repr_html_(self) -> str:
        """Return what a notebook shows: a table of source words by target words, ■ where two are linked.

        Without words on a side, or with more than 100, it is the Pharaoh line.
        """
        source, target = self.pair.source, self.pair.target
        if not source or not target or max(len(source), len(target)) > MAX_TABLE_WORDS:
            return f"<code>{self}</code>"
        head = "".join(f'<th style="{_TURNED}">{_table_word(word)}</th>' for word in target)
        rows = [f"<tr><td></td>{head}</tr>"]
        for i, word in enumerate(source):
            cells = []
            for j in range(len(target)):
                score = self.scores.get((i, j))
                linked = "></td>" if score is None else f' title="{score:.2f}">■</td>'
                cells.append(f'<td style="{_CELL}"{linked}')
            rows.append(f'<tr><th style="{_SIDE}">{_table_word(word)}</th>{"".join(cells)}</tr>')
        return f'<table style="border-collapse:collapse">{"".join(rows)}</table>'

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(sorted(self.scores))

    def __hash__(self) -> int:
        return hash((self.pair, self.links))

    def __str__(self) -> str:
        return " ".join(f"{i}-{j}" for i, j in self)


MAX_TABLE_WORDS = 100
"""Words of a side that a notebook shows in a table, whose size in the notebook's file is their product."""

_SIDE = "text-align:right;font-weight:normal"
_TURNED = "writing-mode:vertical-rl;transform:rotate(180deg);text-align:left;font-weight:normal;padding:6px 0"
_CELL = "border:1px solid #8886;width:1.4em;height:1.4em;padding:0;text-align:center"


def _table_word(word: str) -> str:
    return html.escape(shorten(printable(word), 24))
