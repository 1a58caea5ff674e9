"""What requests and replies hold, which is what /openapi.json shows."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, model_validator
from pydantic_core import PydanticCustomError

from align.core.errors import shorten

Status = Literal["ok", "blank", "too long", "failed"]
"""What became of a pair: links; none since a side has no word, or since the model takes no pair so long; an error."""


class _Request(BaseModel):
    """Types are not converted, and unknown names are refused."""

    model_config = ConfigDict(strict=True)

    @model_validator(mode="before")
    @classmethod
    def _known(cls, given: Any) -> Any:
        """Refuse the first unknown name; pydantic itself would make an error of each, and a body has room for many."""
        unknown = [name for name in given if name not in cls.model_fields] if isinstance(given, dict) else []
        if unknown:
            raise PydanticCustomError("unknown", "unknown name {name}", {"name": repr(shorten(unknown[0], 40))})
        return given


class SentencePair(_Request):
    """A sentence and its translation; words stand between spaces."""

    source: str
    target: str


Pairs = Annotated[list[SentencePair], FailFast()]
"""The first that is wrong is enough: a body has room for very many, each with an error of its own."""


class AlignRequest(_Request):
    """Pairs to align."""

    pairs: Pairs
    format: Literal["pharaoh", "pairs"] = Field("pharaoh", description="links as `0-0 1-2`, or as `[[0, 0], [1, 2]]`")
    scores: bool = Field(False, description="whether each pair has the scores of its links, in the links' order")


class AlignedPair(BaseModel):
    """The links of a pair, (source word, target word), from 0."""

    status: Status
    links: str | list[tuple[int, int]]
    scores: list[float] | None = Field(None, description="there if asked for")


class AlignReply(BaseModel):
    """One for each pair, in order."""

    pairs: list[AlignedPair]


class TransferRequest(_Request):
    """Pairs whose sources have tags, and whose targets have none."""

    pairs: Pairs
    tags: Literal["xml", "html", "placeholders"] = Field("xml", description="what the sources hold")
    split: bool = Field(False, description="whether a tag may come more than once")


class TagReport(BaseModel):
    """Where a tag was put; words are counted from 0, and the end of a window is left out."""

    tag: str
    source: tuple[int, int]
    target: list[tuple[int, int]]
    confidence: float
    remarks: list[str]


class TransferredPair(BaseModel):
    """A target with its tags."""

    status: Status | Literal["bad tags"]
    target: str | None = Field(description="null where the tags could not be read or placed")
    tags: list[TagReport]
    error: str | None = Field(None, description="what is wrong with the tags, if they are bad")


class TransferReply(BaseModel):
    """One for each pair, in order."""

    pairs: list[TransferredPair]


class Health(BaseModel):
    """Whether pairs are taken, and what aligns them."""

    ready: bool
    models: list[str]
    signature: str


class Refusal(BaseModel):
    """Why there is no answer."""

    error: str
