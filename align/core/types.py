"""The data types that all other modules use: frozen dataclasses that check their values."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from align.core.errors import LineError, printable, shorten, with_arguments

if TYPE_CHECKING:
    from torch import Tensor

Links = frozenset[tuple[int, int]]
"""Word alignment of one sentence pair: (source word, target word), both counted from 0."""

LinkScores = Mapping[tuple[int, int], float]  # links of a pair, (source word, target word), with their scores

Agreement = tuple[float, float]
"""How well directions agree on partners of target and of source words, from 0 to 1: `align.core.scores.agreements`."""

Span = tuple[int, int]  # first character (or word) of a range, from 0, and the one after its last

Score = Literal["norm", "weight"]
Position = Literal["input", "output"]
Dtype = Literal["float32", "bfloat16", "int8"]
"""Precision of the model's matrix products; all else is float32."""
DTYPES: tuple[Dtype, ...] = get_args(Dtype)

Part = Literal["encoder", "decoder", "cross"]
"""Attention of a Transformer: self-attention of the encoder and the decoder, and encoder-decoder attention."""
PARTS: tuple[Part, ...] = get_args(Part)

Head = int | Literal["all"]  # a head of a layer, from 1, or all heads together


class TextWarning(UserWarning):
    """The text does not look like what the model was trained on."""

    def __str__(self) -> str:
        return with_arguments(printable(super().__str__()))


@dataclass(frozen=True, slots=True)
class Gold:
    """Manual links of a pair; `possible` includes the sure ones.

    Raises:
        ValueError: a sure link is not possible.
    """

    sure: Links
    possible: Links

    def __post_init__(self) -> None:
        if not self.sure <= self.possible:
            raise ValueError("a sure link is not among the possible ones")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a pair comes from, and what it carries; it comes back with the pair's alignment."""

    file: str = ""  # its name in messages
    line: int = 0  # in the file, from 1
    error: LineError | None = None  # why the line could not be read and became blank
    item: Any = None  # what the pair is a part of, or belongs to: whatever its sender needs with the links
    part: int = 0  # number of the pair in its item, from 0
    number: int = 0  # of the item, from 1; 0 for a pair that align.core.stream.align_items did not send


NOWHERE = Origin()


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence pair in the user's own words; `id` is its line number, from 1.

    `origin` stays in this process and comes back with the alignment; pairs are compared without it.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    id: int
    origin: Origin = field(default=NOWHERE, compare=False, repr=False, kw_only=True)

    @property
    def blank(self) -> bool:
        """Whether a side has no words."""
        return not self.source or not self.target

    def memory(self) -> int:
        """Return the approximate number of bytes in memory."""
        return len("".join((*self.source, *self.target))) + 64 * (len(self.source) + len(self.target))

    @property
    def spans(self) -> tuple[list[Span], list[Span]] | None:
        """Where the words of both sides stand in their lines; None unless the pair keeps them, as `LinePair` does."""
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle all but the origin."""
        return type(self), tuple(getattr(self, name) for name in self.__match_args__)

    def with_target(self, words: tuple[str, ...]) -> Pair:
        """Return the same source with another target."""
        return Pair(self.source, words, self.id, origin=self.origin)


@dataclass(frozen=True, slots=True)
class Pieces:
    """What a model reads of a pair: vocabulary ids, and the word that each belongs to.

    The last source id is `</s>`, whose word is -1. The target has no special ids, except those of word -1 that were
    given between others. `words` counts source and target words, (I, J); the last words may have no piece.
    """

    source: Sequence[int]
    source_words: Sequence[int]
    target: Sequence[int]
    target_words: Sequence[int]
    words: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Batch:
    """Padded ids of B pairs, `[B, S]` and `[B, T]`, and the word of each: -1 for `</s>`, -2 for a pad.

    A source row ends in `</s>`, then pads. `words` is the largest number of source and of target words, (I,
    J).
    """

    source: Tensor
    source_words: Tensor
    target: Tensor
    target_words: Tensor
    words: tuple[int, int]


@dataclass(frozen=True, slots=True)
class CrossAttention:
    """Encoder-decoder attention of one decoder layer, from 1 (lowest), under teacher forcing.

    Row 0 of the weights reads `</s>` and predicts the first piece; they are `[B, H, T, S]` if only the rows
    of one position are kept. `products` are `align.core.scores.head_products(out_proj)` in float32, if the
    model caches them: computing them costs as much as D source pieces.
    """

    layer: int
    weights: Tensor  # [B, H, T+1, S]
    values: Tensor  # value vectors with their bias [B, H, S, d]
    out_proj: Tensor  # output projection of each head, without its bias [H, d, D]
    products: Sequence[Tensor] | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """A decoder layer, from 1, and one of its heads or all of them together."""

    layer: int
    head: Head

    def __str__(self) -> str:
        return f"layer {self.layer}, " + ("all heads" if self.head == "all" else f"head {self.head}")


@dataclass(frozen=True, slots=True)
class Place:
    """Cells that alignments are read from: one of the input position, of the output position, or one of each.

    Raises:
        ValueError: neither position has a cell.
    """

    input: Cell | None = None
    output: Cell | None = None

    def __post_init__(self) -> None:
        if not self.input and not self.output:
            raise ValueError("a place has a cell of one position at least")

    def cells(self) -> dict[Position, Cell]:
        """Return the cell of each position that is read."""
        cells: dict[Position, Cell | None] = {"input": self.input, "output": self.output}
        return {position: cell for position, cell in cells.items() if cell}

    def __str__(self) -> str:
        return "; output position: ".join(map(str, self.cells().values()))


@dataclass(frozen=True, slots=True)
class Choice:
    """A place, why it was chosen, and by which lexical consistency of its first position, if any."""

    place: Place
    reason: str
    consistency: float | None = field(default=None, compare=False)

    def __str__(self) -> str:
        value = "" if self.consistency is None else f", {self.consistency:.2f}"
        return f"{self.place} ({self.reason}{value})"


@dataclass(frozen=True, slots=True)
class Alignment:
    """A pair and its links with their scores: from 0 to 1, or shares of the target word's total score.

    `str()` is the Pharaoh line, `to_dict()` the content of `-f jsonl`, and a notebook shows a table. `skipped` says why
    a non-blank line has no links, such as "too long", and `agreement` is None where links are not soft.
    """

    pair: Pair
    scores: LinkScores
    skipped: str = ""
    agreement: Agreement | None = None

    @property
    def links(self) -> Links:
        """The links without scores."""
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
        """Return pair and links as numbers, strings and lists of them, for `json.dumps`.

        Keys: `id`, the number of the pair; `source` and `target`, its words; `links`, sorted; `scores`, one for each
        link, rounded to four digits; `null` and `source_null`, the target and source words without a link.
        `agreement` is there if the links are soft, `source_spans` and `target_spans`, the characters of each word, if
        the pair keeps its lines, and `skipped` if the pair was.
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
        if self.agreement:
            record["agreement"] = [round(value, 4) for value in self.agreement]
        if spans := self.pair.spans:
            record |= zip(("source_spans", "target_spans"), ([[*span] for span in side] for side in spans), strict=True)
        return {**record, "skipped": self.skipped} if self.skipped else record

    def _repr_html_(self) -> str:
        """Return what a notebook shows: source words by target words, ■ where two are linked, coloured by the score.

        Without words on a side, or with more than 100, it is the Pharaoh line.
        """
        sides = self.pair.source, self.pair.target
        source, target = ([html.escape(shorten(printable(word), 24)) for word in side] for side in sides)
        if not source or not target or max(len(source), len(target)) > MAX_TABLE_WORDS:
            return f"<code>{self}</code>"
        rows = ["<td></td>" + "".join(f'<th style="{_TURNED}">{word}</th>' for word in target)]
        titled = '{}{:.2f})" title="{:.2f}">■'
        cells = {link: titled.format(_LINK, max(0.2, min(score, 1)), score) for link, score in self.scores.items()}
        for i, word in enumerate(source):
            row = "".join(f'<td style="{_CELL}{cells.get((i, j), _NO_LINK)}</td>' for j in range(len(target)))
            rows.append(f'<th style="{_SIDE}">{word}</th>{row}')
        return f'<table style="border-collapse:collapse">{"".join(f"<tr>{row}</tr>" for row in rows)}</table>'

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(sorted(self.scores))

    def __hash__(self) -> int:
        return hash((self.pair, self.links))

    def __str__(self) -> str:
        return " ".join([f"{i}-{j}" for i, j in self])


MAX_TABLE_WORDS = 100
"""Words of a side that a notebook shows in a table; the size of the table is their product."""

_SIDE = "text-align:right;font-weight:normal"
_TURNED = "writing-mode:vertical-rl;transform:rotate(180deg);text-align:left;font-weight:normal;padding:6px 0"
_LINK, _NO_LINK = ";color:transparent;background-color:rgba(46,120,214,", '">'  # for light and dark pages
_CELL = "border:1px solid #8886;width:1.4em;height:1.4em;padding:0;text-align:center"


CUTS = ("spaces", "unicode", "segmented", "characters", "pieces", "icu")
"""Kinds of words: text between ASCII spaces, or any white space; the former, of scripts that a model reads without
these spaces; single characters; pieces of the model; or words that ICU finds."""

PositionChoice = Literal["input", "output", "both", "auto"]
Null = Literal["eos", "mask", "none"]

THRESHOLD = 0.5  # words are linked if their score exceeds this value, which was chosen on German–English gold
FLOOR = 0.01  # soft scores up to this are skipped in whole texts: they are many, and change next to nothing


@dataclass(frozen=True, slots=True)
class Settings:
    """What links are read from; layers and heads count from 1.

    With the position "both", `layer` and `head` are those of the input position, `output_layer` and `output_head` those
    of the output position; with another position the latter must be "auto". With "auto", each text is read at one
    position, if its links are clearly more consistent than the other's, or else at both.

    With a `threshold`, from 0 to 1, words are linked whose score (`align.core.scores`) exceeds it; with None each
    target word is linked to its best source word.

    Raises:
        ValueError: a value that is not listed here.
    """

    score: Score = "norm"
    position: PositionChoice = "both"
    layer: int | Literal["auto"] = "auto"
    head: Head | Literal["auto"] = "auto"
    null: Null = "eos"
    threshold: float | None = THRESHOLD
    output_layer: int | Literal["auto"] = "auto"
    output_head: Head | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        for name, values in (("score", Score), ("position", PositionChoice), ("null", Null)):
            if (value := getattr(self, name)) not in get_args(values):
                raise ValueError(f"{name} must be one of {', '.join(get_args(values))}; got {value!r}")
        for name in ("layer", "head", "output_layer", "output_head"):
            number, words = getattr(self, name), ("auto", "all") if name.endswith("head") else ("auto",)
            if number not in words and not (isinstance(number, int) and number >= 1):
                raise ValueError(f"{name} must be a number from 1 or {' or '.join(words)}; got {number!r}")
        if self.position != "both" and (self.output_layer, self.output_head) != ("auto", "auto"):
            raise ValueError(f"output_layer and output_head require the position both; not {self.position}")
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise ValueError(f"threshold must be a number from 0 to 1; got {self.threshold!r}")


@dataclass(frozen=True, slots=True)
class Search:
    """How translations are searched for; `str()` is what the signature says: the beam, and what is not the default.

    Attributes:
        beam: translations in the making that are kept at each step.
        length_penalty: scores are divided by the length to the power of this; below 1 favours short translations.
        max_len_a: a translation of S source pieces, `</s>` included, has at most a S + b pieces.
        max_len_b: the b of this.
        allow_unk: leave `<unk>` in translations; otherwise the aligned source word stands in its place.

    Raises:
        ValueError: a number outside its range.
    """

    beam: int = 5
    length_penalty: float = 1.0
    max_len_a: float = 1.5
    max_len_b: int = 50
    allow_unk: bool = False

    def __post_init__(self) -> None:
        if self.beam < 1 or self.max_len_b < 1:
            raise ValueError(f"beam and max_len_b must be numbers from 1; got {self.beam} and {self.max_len_b}")
        for name, value in (("length_penalty", self.length_penalty), ("max_len_a", self.max_len_a)):
            if not 0 <= value <= 10:
                raise ValueError(f"{name} must be a number from 0 to 10; got {value}")

    def __str__(self) -> str:
        penalty = f"-penalty{self.length_penalty:g}" if self.length_penalty != 1 else ""
        length = f"-length{self.max_len_a:g}x+{self.max_len_b}" if (self.max_len_a, self.max_len_b) != (1.5, 50) else ""
        return f"beam{self.beam}{penalty}{length}{'-unk' if self.allow_unk else ''}"
