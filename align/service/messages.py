"""Data types of requests and replies, as /openapi.json shows them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SkipValidation, ValidationError

from align.core.errors import shorten

Pair = TypeVar("Pair")

MAX_CHARACTERS = 5000  # maximum number of characters in a sentence, with its tags

Status = Literal["ok", "blank", "too long", "failed", "bad pair", "bad tags"]
"""Result of a pair: aligned; without links, as a side has no words or the pair is too long; or an error."""

Kinds = Literal["xml", "html", "placeholders", "xml,placeholders", "html,placeholders"]
Tags = Annotated[
    Kinds,
    BeforeValidator(
        lambda given: ",".join(sorted(map(str, given), key="placeholders".__eq__)) if type(given) is list else given,
        json_schema_input_type=Kinds | list[Literal["xml", "html", "placeholders"]],
    ),
]
Id = str | int | Annotated[float, Field(allow_inf_nan=False)] | None
Line = Annotated[str, Field(max_length=MAX_CHARACTERS, pattern=r"^[^\n]*$")]

EXAMPLES: Mapping[str, dict[str, Any]] = {
    "/align": {"pairs": [{"source": "Das Haus ist alt.", "target": "The house is old."}]},
    "/transfer": {"pairs": [{"source": "Das <b>Haus</b> ist alt.", "target": "The house is old."}], "tags": "xml"},
    "/translate": {"pairs": [{"source": "Das Haus ist alt."}]},
}
"""The shortest form of each request, which refusals show."""


class _Request(BaseModel):
    """A request whose types are not converted, and whose unknown names are refused."""

    model_config = ConfigDict(strict=True, extra="forbid")


class Sentence(_Request):
    """A sentence; words are separated by spaces."""

    id: Id = Field(None, description="anything; the result has the same")
    source: Line


class SentencePair(Sentence):
    """A sentence and its translation; words are separated by spaces."""

    target: Line


Pairs = list[Annotated[SentencePair, SkipValidation]]
"""Pairs of a request, each of which `read_pair` validates: a bad one is an error by itself."""


class AlignRequest(_Request):
    """Pairs to align."""

    model_config = ConfigDict(json_schema_extra={"example": EXAMPLES["/align"]})

    pairs: Pairs
    format: Literal["pharaoh", "pairs"] = Field("pharaoh", description="links as `0-0 1-2`, or as `[[0, 0], [1, 2]]`")
    scores: bool = Field(False, description="whether each pair has the scores of its links, in the links' order")


class TransferRequest(_Request):
    """Pairs whose sources have tags, and whose targets have none."""

    model_config = ConfigDict(json_schema_extra={"example": EXAMPLES["/transfer"]})

    pairs: Pairs
    tags: Tags = Field("xml", description="what the sources hold")
    split: bool = Field(False, description="whether a tag may come more than once")


class TranslateRequest(_Request):
    """Sentences to translate."""

    model_config = ConfigDict(json_schema_extra={"example": EXAMPLES["/translate"]})

    pairs: list[Annotated[Sentence, SkipValidation]]
    tags: Tags | None = Field(None, description="what the sources hold, to be put into the translations")
    split: bool = Field(False, description="whether a tag may come more than once")


class TagReport(BaseModel):
    """The position of a tag; words are counted from 0, and the end of a window is excluded."""

    tag: str
    source: tuple[int, int]
    target: list[tuple[int, int]]
    confidence: float
    remarks: list[str]


class _Result(BaseModel):
    """The result of a pair."""

    id: Id = Field(None, description="there if the pair has one")
    status: Status
    error: str | None = Field(None, description="what is wrong with a bad pair, or with its tags")


class AlignedPair(_Result):
    """The links of a pair, (source word, target word), from 0."""

    links: str | list[tuple[int, int]]
    scores: list[float] | None = Field(None, description="there if asked for")
    agreement: tuple[float, float] | None = Field(None, description="there with scores, if both models align")


class TransferredPair(_Result):
    """A target with its tags."""

    target: str | None = Field(description="null where the tags could not be read or placed")
    tags: list[TagReport]


class TranslatedPair(_Result):
    """A translation, with its links or with the tags of its source."""

    target: str | None = Field(description="null where there is none")
    links: str | None = Field(None, description="as `0-0 1-2`; there if no tags were asked for")
    tags: list[TagReport] | None = Field(None, description="there if tags were asked for")


class Reply(BaseModel, Generic[Pair]):
    """The result of each pair, in order."""

    pairs: list[Pair]


class Health(BaseModel):
    """State of the service, and its models."""

    ready: bool
    models: list[str]
    signature: str


class Refusal(BaseModel):
    """Reason for a refused request."""

    error: str
    example: dict[str, Any] | None = Field(None, description="a body as it should be")


def read_pair(content: Any, path: str) -> tuple[SentencePair, str]:
    """Return a pair of a request to a path, without a target in one to translate; a blank one if it is bad, and why."""
    try:
        if path == "/translate":
            return SentencePair.model_construct(**dict(Sentence.model_validate(content)), target=""), ""
        return SentencePair.model_validate(content), ""
    except ValidationError as error:
        why = f"{first_error(error.errors())}; a pair is {json.dumps(EXAMPLES[path]['pairs'][0])}"
    id = content.get("id") if isinstance(content, dict) else None
    id = id if type(id) in (str, int) or (type(id) is float and isfinite(id)) else None
    return SentencePair.model_construct(id=id, source="", target=""), why


def first_error(errors: Sequence[Any], skip: int = 0) -> str:
    """Return the first error and where it is, without `skip` parts of the location; values are never quoted."""
    where = shorten(".".join(map(str, errors[0]["loc"][skip:])), 40)
    return f"{where}: {errors[0]['msg']}" if where else str(errors[0]["msg"])
