"""Read the pieces of a model folder and their ids from any of the supported tokenizer files.

Each reader takes time and memory linear in the vocabulary: published ones have up to 256,000 pieces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from align.core.errors import ModelError, shorten
from align.models.detokenize import JOINS, UNKNOWN, Join
from align.models.huggingface.config import Config, read_json, tokenizer_config
from align.models.huggingface.languages import LANGUAGES
from align.models.huggingface.tokenizer_json import read_tokenizer
from align.models.preprocess import Segment, sentencepiece_pieces, sentencepiece_segmenter, subword_nmt_segmenter

SENTENCEPIECE_FILES = ("sentencepiece.bpe.model", "spiece.model")

FOLLOWED_BY_LANGUAGES = {"m2m_100": "nllb", "mbart": "mbart", "mbart-50": "mbart-50"}
"""Kinds of model whose sentencepiece ids are shifted by one, as in fairseq, and followed by these languages."""

WITH_SENTENCEPIECE = frozenset({*FOLLOWED_BY_LANGUAGES, "t5", "mt5", "umt5", "pegasus"})
"""Kinds of model whose sentencepiece model is sufficient to number their pieces."""

PEGASUS_OFFSET = 103
"""Number that Pegasus adds to the ids of its sentencepiece model, for `<pad>`, `</s>` and masks of pre-training."""

SPECIAL = frozenset({"<s>", "</s>", "<pad>", "<unk>", "<mask>"})

CODE_LENGTH = 30
"""Maximum characters of a language code."""

BYTES = 256
BYTE_SPECIAL = ("<pad>", "</s>", "<unk>")
"""ByT5's first three ids; the bytes follow."""

CLASSES: Mapping[str, frozenset[str]] = {
    "bart": frozenset({"Bart", "Roberta", "T5", "Barthez"}),
    "fsmt": frozenset({"FSMT", "Marian"}),
    "m2m_100": frozenset({"M2M100", "Nllb"}),
    "marian": frozenset({"Marian"}),
    "mbart": frozenset({"MBart", "MBart50"}),
    "mbart-50": frozenset({"MBart50"}),
    "mt5": frozenset({"T5", "MT5"}),
    "pegasus": frozenset({"Pegasus"}),
    "small100": frozenset({"SMALL100"}),
    "t5": frozenset({"T5", "ByT5", "Roberta"}),
    "umt5": frozenset({"T5"}),
}
"""transformers' tokenizer classes that this module supports, without `Tokenizer` and `TokenizerFast`."""

WITHOUT_LANGUAGES = frozenset({"bart", "pegasus", "t5", "mt5", "umt5"})
"""Kinds of model for which tokenizer.json adds only its own marks around a source, not a language."""

GENERIC_CLASSES = frozenset({"", "PreTrained", "TokenizersBackend", "SentencePieceBackend", "PythonBackend"})
"""Class names that do not identify the model."""


@dataclass(frozen=True)
class Side:
    """The pieces of one side.

    Attributes:
        segment: cuts a word into pieces.
        ids: the id of every piece, special ones included.
        file: where the pieces come from, for messages and the fingerprint.
    """

    segment: Segment
    ids: Mapping[str, int]
    file: Path


@dataclass(frozen=True)
class Vocabulary:
    """The pieces of a model.

    Attributes:
        sides: source and target.
        special: pieces that belong to no word.
        codes: the piece of each of the model's language codes.
        join: joins the target's pieces into tokens.
        surroundings: ids before and after a source's pieces, as tokenizer.json adds them; None if it adds none.
        case: "keep" or "lower".
        tokenizer: a key of `align.models.preprocess.TOKENIZERS`.
        subwords: kind of its pieces: a key of `align.models.preprocess.SUBWORDS`, or "byte".
        normalized: whether punctuation is normalised by Moses' rules before it is tokenised.
    """

    sides: tuple[Side, Side]
    special: frozenset[str]
    codes: Mapping[str, str]
    join: Join = JOINS["sentencepiece"]
    surroundings: tuple[Sequence[int], Sequence[int]] | None = None
    case: str = "keep"
    tokenizer: str = "none"
    subwords: str = "sentencepiece"
    normalized: bool = False


def read_vocabulary(root: Path, kind: str) -> Vocabulary:
    """Read the pieces of the model in a folder."""
    name = tokenizer_class(root)
    vocabulary = _reader(root, kind, name)(root, kind)
    tells_surroundings = kind in WITHOUT_LANGUAGES and vocabulary.surroundings is not None  # these are checked
    if name not in GENERIC_CLASSES | CLASSES[kind] and not tells_surroundings:
        known = " or ".join(f"{name}Tokenizer" for name in sorted(CLASSES[kind]))
        message = f"its tokenizer is {shorten(name)}Tokenizer; with a model of type {kind}, only {known} is read"
        raise ModelError(message, file=tokenizer_config(root).file)
    if not all("<unk>" in side.ids for side in vocabulary.sides):
        raise ModelError("its vocabulary has no <unk>", file=str(root))
    return vocabulary


def tokenizer_class(root: Path) -> str:
    """Return the tokenizer's class, without `Tokenizer` or `TokenizerFast`; empty if the files name none."""
    path, name = root / "config.json", tokenizer_config(root).word("tokenizer_class", "")
    if not name and path.is_file():  # optional for an adapter
        name = Config(read_json(path), str(path)).word("tokenizer_class", "")
    return re.sub(r"Tokenizer(Fast)?$", "", name)


def _reader(root: Path, kind: str, name: str) -> Callable[[Path, str], Vocabulary]:
    """Return the function that reads a folder's files."""

    def has(file: str) -> bool:
        return (root / file).is_file()

    if has("merges.txt") and has("vocab-src.json"):
        return _read_fsmt
    if has("source.spm"):
        return _read_marian
    if name == "ByT5":
        return _read_bytes
    if has("tokenizer.json"):
        return _read_tokenizer_json
    if has("sentencepiece.bpe.model") and has("vocab.json"):
        return _read_m2m100
    if any(map(has, SENTENCEPIECE_FILES)) and kind in WITH_SENTENCEPIECE:
        return _read_sentencepiece
    message = "no vocabulary that can be read (tokenizer.json, or source.spm, target.spm and vocab.json, or merges.txt,"
    message += " vocab-src.json and vocab-tgt.json, or sentencepiece.bpe.model, or spiece.model) in this folder"
    hint = "save_pretrained() of transformers' AutoTokenizer writes tokenizer.json"
    raise ModelError(message, file=str(root), hint=hint)


def read_added_tokens(root: Path) -> tuple[dict[str, int], set[str]]:
    """Return the tokens that files define in addition to a vocabulary, with their ids, and those that are no text.

    They are added_tokens.json, and added_tokens_decoder of tokenizer_config.json, which also marks special tokens.
    """
    ids: dict[str, int] = {}
    special: set[str] = set()
    path = root / "added_tokens.json"
    if path.is_file():
        ids |= _checked(read_json(path), path)
        listed = _listed_special(root)
        special |= {token for token in ids if token in listed or _SPECIAL_FORM.fullmatch(token)}
    decoder = tokenizer_config(root).inner("added_tokens_decoder").content
    path = root / "tokenizer_config.json"
    numbers = {}
    for number, token in decoder.items():
        content = token.get("content") if isinstance(token, dict) else None
        if not (isinstance(content, str) and re.fullmatch(r"\d{1,9}", number)):
            raise ModelError("its added_tokens_decoder is not tokens by number", file=str(path))
        numbers[content] = int(number)
        if token.get("special") is True:
            special.add(content)
        else:
            special.discard(content)
    return {**ids, **_checked(numbers, path)}, special


def _listed_special(root: Path) -> set[str]:
    """Return the tokens that the tokenizer's settings list as special: the usual ones, and languages, as in NLLB."""
    paths = [root / name for name in ("special_tokens_map.json", "tokenizer_config.json")]
    contents = [read_json(path) for path in paths if path.is_file()]
    lists = [content.get(f"{kind}_special_tokens") for content in contents for kind in ("additional", "extra")]
    tokens = [token for listed in lists if isinstance(listed, list) for token in listed]
    texts = (token.get("content") if isinstance(token, dict) else token for token in tokens)
    return {text for text in texts if isinstance(text, str)}


_SPECIAL_FORM = re.compile(r"<[^<> ]+>|>>[\w-]+<<|__[\w-]+__|[a-z]{2,3}_[A-Z][A-Za-z]{1,3}")
"""Form of language codes and of marks such as `</s>`."""


def _checked(content: Mapping[str, object], path: Path) -> dict[str, int]:
    """Check that an object maps pieces to ids, and return it."""
    ids: dict[str, int] = {}
    for piece, n in content.items():
        if type(n) is not int or not 0 <= n < 1 << 31:
            raise ModelError("not a vocabulary: pieces with a number each", file=str(path))
        ids[piece] = n
    return ids


def _codes(pieces: Iterable[str], pattern: str) -> dict[str, str]:
    """Return the piece of each language code among `pieces`."""
    match = re.compile(pattern).fullmatch
    matches = ((piece, match(piece)) for piece in pieces)
    return {m[1]: piece for piece, m in matches if m and re.fullmatch(rf"[\w-]{{1,{CODE_LENGTH}}}", m[1])}


MARIAN_TAG = r">>(.+)<<"
T5_TAG = r"<2(\w[\w-]*)>"
LANGUAGE_TOKEN = r"(?:__)?([^<_].*?)(?:__)?"
"""Pattern of languages among special tokens: `deu_Latn`, `de_DE`, or `__de__` for `de`."""


def language_codes(kind: str, ids: Iterable[str], special: Iterable[str]) -> dict[str, str]:
    """Return the piece of each language code of a model, by the form of language pieces in models of its kind."""
    if kind == "marian":
        return _codes(ids, MARIAN_TAG)
    if kind in ("t5", "mt5", "umt5"):
        return dict(sorted(_codes(ids, T5_TAG).items()))
    if kind in ("m2m_100", "small100", "mbart", "mbart-50"):
        return _codes(sorted(special), LANGUAGE_TOKEN)
    return {}


def _vocabulary(
    root: Path, kind: str, sides: tuple[Side, Side], known: Iterable[str] = (), **more: object
) -> Vocabulary:
    """Return a vocabulary of the pieces that a file or a rule numbers, and of added tokens."""
    added, added_special = read_added_tokens(root)
    taken, text = set(added.values()), [token for token in added if token and token not in added_special]
    merged = {}  # one object if both sides share a vocabulary
    for side in sides:  # without computed pieces whose ids belong to added tokens
        own = {piece: n for piece, n in side.ids.items() if n not in taken or added.get(piece) == n}
        merged[id(side.ids)] = {**own, **added}
    added_sides = [replace(side, ids=merged[id(side.ids)], segment=_splitting_at(text, side.segment)) for side in sides]
    special = {*SPECIAL, *known, *added_special}
    codes = language_codes(kind, added_sides[0].ids, special)
    return Vocabulary((added_sides[0], added_sides[1]), frozenset({*special, *codes.values()}), codes, **more)  # type: ignore[arg-type]


def _splitting_at(tokens: Sequence[str], segment: Segment) -> Segment:
    """Return a segmenter like `segment` that also makes each added token one piece, at any place in a word."""
    if not tokens:
        return segment
    split = re.compile("({})".format("|".join(map(re.escape, sorted(tokens, key=len, reverse=True))))).split
    known = frozenset(tokens)

    def with_tokens(word: str, first: bool) -> list[str]:
        parts = [part for part in split(word) if part]
        cut = ([part] if part in known else segment(part, first or n > 0) for n, part in enumerate(parts))
        return [piece for pieces in cut for piece in pieces]

    return with_tokens


def _read_ids(path: Path) -> dict[str, int]:
    """Read a vocab.json."""
    return _checked(read_json(path), path)


def _read_marian(root: Path, kind: str) -> Vocabulary:
    source = _read_ids(root / "vocab.json")
    target = _read_ids(root / "target_vocab.json") if (root / "target_vocab.json").is_file() else source
    files = root / "source.spm", root / "target.spm"
    segments = map(sentencepiece_segmenter, files)
    sides = [Side(*parts) for parts in zip(segments, (source, target), files, strict=True)]
    return _vocabulary(root, kind, (sides[0], sides[1]))


def _read_m2m100(root: Path, kind: str) -> Vocabulary:
    ids = _read_ids(root / "vocab.json")
    release = tokenizer_config(root).word("language_codes", "m2m100")
    if release not in ("m2m100", "wmt21"):
        message = f"its language_codes are {release}, not one of m2m100, wmt21"
        raise ModelError(message, file=str(root / "tokenizer_config.json"))
    languages = [f"__{code}__" for code in LANGUAGES[release].split()]
    ids |= {piece: len(ids) + n for n, piece in enumerate(languages)}
    path = root / "sentencepiece.bpe.model"
    side = Side(sentencepiece_segmenter(path), ids, path)
    return _vocabulary(root, kind, (side, side), languages)


def _read_sentencepiece(root: Path, kind: str) -> Vocabulary:
    """Read a sentencepiece model that numbers its pieces itself, except for special pieces and languages."""
    path = next(root / name for name in SENTENCEPIECE_FILES if (root / name).is_file())
    pieces = sentencepiece_pieces(path)
    languages: list[str] = []
    if kind in FOLLOWED_BY_LANGUAGES:  # as in fairseq: four special pieces replace the model's first three
        languages = LANGUAGES[FOLLOWED_BY_LANGUAGES[kind]].split()
        pieces = ["<s>", "<pad>", "</s>", "<unk>", *pieces[3:], *languages, "<mask>"]
    ids = {piece: n for n, piece in enumerate(pieces)}
    if kind == "pegasus":
        ids = {piece: n if n < 2 else n + PEGASUS_OFFSET for piece, n in ids.items()}
    side = Side(sentencepiece_segmenter(path), ids, path)
    return _vocabulary(root, kind, (side, side), languages)


def _read_fsmt(root: Path, kind: str) -> Vocabulary:
    config = Config(read_json(root / "tokenizer_config.json"), str(root / "tokenizer_config.json"))
    path = root / "merges.txt"
    segment = subword_nmt_segmenter(path, (), fastbpe=True)

    def with_end(token: str, first: bool) -> list[str]:
        """Return pieces as this vocabulary writes them: marked at a token's last, not at the others."""
        return [piece[:-2] if piece.endswith("@@") else f"{piece}</w>" for piece in segment(token, first)]

    sides = [Side(with_end, _read_ids(root / f"vocab-{name}.json"), path) for name in ("src", "tgt")]
    return _vocabulary(
        root,
        kind,
        (sides[0], sides[1]),
        join=lambda pieces: "".join(pieces).replace("</w>", " ").strip(),
        case="lower" if config.switch("do_lower_case", False) else "keep",
        tokenizer="moses-escaped-hyphens",
        subwords="subword-nmt",
        normalized=True,
    )


def _read_bytes(root: Path, kind: str) -> Vocabulary:
    """Return the vocabulary of ByT5, whose pieces are the bytes of UTF-8; it has no file."""
    names = [chr(byte) for byte in range(BYTES)]

    def segment(word: str, first: bool) -> list[str]:
        return list((word if first else f" {word}").encode("utf-8", "surrogatepass").decode("latin-1"))

    def join(pieces: Sequence[str]) -> str:
        content = b"".join(piece.encode("utf-8" if piece == UNKNOWN else "latin-1") for piece in pieces)
        return content.decode("utf-8", "ignore")

    ids = {piece: n for n, piece in enumerate([*BYTE_SPECIAL, *names])}
    side = Side(segment, ids, root / "tokenizer_config.json")
    return Vocabulary((side, side), SPECIAL, {}, join, subwords="byte")


def _read_tokenizer_json(root: Path, kind: str) -> Vocabulary:
    path = root / "tokenizer.json"
    tokenizer = read_tokenizer(path)
    pieces = tokenizer.pieces
    lead = next((lead for lead in ("", " ") if pieces("b a")[len(pieces("b")) :] == pieces(f"{lead}a")), "")

    def segment(token: str, first: bool) -> list[str]:
        return pieces(token if first else lead + token)

    side = Side(segment, tokenizer.ids, path)
    codes = language_codes(kind, tokenizer.ids, tokenizer.special)
    special = frozenset({*SPECIAL, *tokenizer.special, *codes.values()})
    return Vocabulary((side, side), special, codes, tokenizer.join, tokenizer.surroundings)
