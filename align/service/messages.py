"""Data types of requests and replies, as /openapi.json shows them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, model_validator
from pydantic_core import PydanticCustomError

from align.core.errors import shorten

Status = Literal["ok", "blank", "too long", "failed"]
"""Result of a pair: aligned; without links, as a side has no words or the pair is too long; or an error."""


class _Request(BaseModel):
    """A request whose types are not converted, and whose unknown names are refused."""

    model_config = ConfigDict(strict=True)

    @model_validator(mode="before")
    @classmethod
    def _known(cls, content: Any) -> Any:
        """Refuse the first unknown name; pydantic itself would report each, and a body has room for many."""
        unknown = [name for name in content if name not in cls.model_fields] if isinstance(content, dict) else []
        if unknown:
            raise PydanticCustomError("unknown", "unknown name {name}", {"name": repr(shorten(unknown[0], 40))})
        return content


class SentencePair(_Request):
    """A sentence and its translation; words are separated by spaces."""

    source: str
    target: str


Pairs = Annotated[list[SentencePair], FailFast()]
"""Pairs of a request. Validation stops at the first invalid one: a body has room for very many errors."""


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
    """Links of each pair, in order."""

    pairs: list[AlignedPair]


class TransferRequest(_Request):
    """Pairs whose sources have tags, and whose targets have none."""

    pairs: Pairs
    tags: Literal["xml", "html", "placeholders"] = Field("xml", description="what the sources hold")
    split: bool = Field(False, description="whether a tag may come more than once")


class TagReport(BaseModel):
    """The position of a tag; words are counted from 0, and the end of a window is excluded."""

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
    """Targets with tags for each pair, in order."""

    pairs: list[TransferredPair]


class Health(BaseModel):
    """State of the service, and its models."""

    ready: bool
    models: list[str]
    signature: str


class Refusal(BaseModel):
    """Reason for a refused request."""

    error: str
