"""Preparation of a bitext for fairseq: cleaning, tokens and case of the model, pieces, binary files."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from align.core.text import split_words
from align.io.manifest import digest_of, dump_json
from align.io.reader import open_lines, read_lines, read_parallel
from align.models.preprocess import UNSPACED, Preprocessor, TextRules
from align.training.follow import lines_of
from align.training.recipe import DataRecipe, Recipe, Start, TextRecipe

Words = tuple[str, ...]

_units = re.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}]+").findall
"""Finds words between spaces, and each character of the scripts that have none."""


def read_pairs(source: Path, target: Path) -> Iterator[tuple[Words, Words]]:
    """Yield the pairs of two files with as many lines, a sentence each; `.gz`, `.xz` and `.zst` are unpacked.

    Words end also at carriage returns, which other programs would treat as line ends.
    """
    names = str(source), str(target)
    with open_lines(names[0]) as first, open_lines(names[1]) as second:
        sides = [
            (line.replace("\r", " ") for line in read_lines(stream, name))
            for stream, name in zip((first, second), names, strict=True)
        ]
        for pair in read_parallel(sides[0], sides[1], names):
            yield pair.source, pair.target


def clean(
    pairs: Iterable[tuple[Words, Words]],
    recipe: DataRecipe,
    dropped: Counter[str],
    valid: Iterable[tuple[Words, Words]] = (),
) -> Iterator[tuple[Words, Words]]:
    """Yield the pairs to train on, in order; count the others by reason. `valid` is the validation text."""

    def key(source: Words, target: Words) -> bytes:
        """Return a 16-byte digest of a pair that ignores case and spaces."""
        text = f"{''.join(source)}\t{''.join(target)}".lower()
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()

    of_valid, seen = {key(*pair) for pair in valid}, set[bytes]()
    for pair in pairs:
        digest = key(*pair)
        short, long = sorted(len(_units(" ".join(side))) for side in pair)
        if not all(pair):
            dropped["a side is empty"] += 1
        elif long > recipe.max_words:
            dropped[f"a side has more than {recipe.max_words} words"] += 1
        elif long > recipe.max_ratio * short:
            dropped[f"a side is more than {recipe.max_ratio:g} times as long as the other"] += 1
        elif digest in of_valid:
            dropped["in the validation text"] += 1
        elif digest in seen:
            dropped["seen before"] += 1
        else:
            seen.add(digest)
            yield pair


def learn_pieces(tokens: Path, path: Path, language: str, text: TextRecipe) -> None:
    """Train sentencepiece BPE on a text in tokens, one sentence per line."""
    from sentencepiece import SentencePieceTrainer

    model = io.BytesIO()  # not a file, whose name would be stored in the model
    try:
        with tokens.open(encoding="utf-8", newline="\n") as lines:
            SentencePieceTrainer.train(
                sentence_iterator=(line.removesuffix("\n") for line in lines),
                model_writer=model,
                model_type="bpe",
                vocab_size=text.vocabulary,
                add_dummy_prefix=text.dummy_prefix,
                max_sentence_length=1 << 16,
                input_sentence_size=5_000_000,
                shuffle_input_sentence=True,
                minloglevel=2,
            )
    except (RuntimeError, OSError) as error:
        reason = str(error).strip().split("\n")[-1]
        raise ValueError(f"sentencepiece cannot learn {text.vocabulary:,} pieces of {language}: {reason}") from None
    path.write_bytes(model.getvalue())


@dataclass(frozen=True)
class Bitext:
    """Files of the training text; `valid` has those to validate on, None takes the end of the training text."""

    languages: tuple[str, str]
    train: tuple[Path, Path]
    valid: tuple[Path, Path] | None = None


@dataclass(frozen=True)
class Prepared:
    """Counts of prepared text for the model card: of pairs, and of target pieces without `</s>`."""

    dropped: Mapping[str, int]
    train: int
    valid: int
    pieces: int


def prepare(
    bitext: Bitext, recipe: Recipe, folder: Path, say: Callable[[str], None], start: Start | None = None
) -> Prepared:
    """Prepare a text for training, unless an earlier run has completed the same text and recipe.

    Args:
        recipe: its data and text tables are used.
        folder: gets its name once it is complete, with `bin/` (fairseq's input), `LANG.spm` and `valid.LANG`
            (the words of the validation text).
        start: initial model whose pieces and dictionaries are used; missing ones are learnt from the text, as are all
            without a model.
    """
    languages, text = bitext.languages, recipe.text
    files = [*bitext.train, *(bitext.valid or ()), *(start.files() if start else ())]
    made_of = repr((languages, [digest_of(path) for path in files], recipe.data, text))
    if folder.exists():
        try:
            record = json.loads((folder / "prepared.json").read_bytes())
        except FileNotFoundError:
            raise ValueError(f"{folder}: exists and was not made by this program; move it") from None
        if record["made_of"] != made_of:
            raise ValueError(f"{folder}: was prepared from another text, recipe or model; name another folder")
        return Prepared(**record["counts"])
    draft = folder.with_name(f"{folder.name}.preparing")
    shutil.rmtree(draft, ignore_errors=True)  # left by an interrupted run
    draft.mkdir(parents=True)
    say(f"cleaning {bitext.train[0]} and {bitext.train[1]}")
    dropped = _write_words(bitext, recipe, draft)
    for language, pieces in zip(languages, start.pieces if start else (None, None), strict=True):
        if pieces:
            shutil.copyfile(pieces, draft / f"{language}.spm")
        else:
            say(f"learning {text.vocabulary:,} pieces of {language}")
            learn_pieces(draft / f"train.tokens.{language}", draft / f"{language}.spm", language, text)
    say("cutting into pieces")
    counts, unfit = _cut(languages, text, draft)
    if unfit:
        dropped[f"a side has no piece, or {text.max_pieces} and more"] = unfit
    say("binarising")
    options: list[object] = ["--trainpref", draft / "train.cut", "--validpref", draft / "valid.cut"]
    for side, dictionary in zip(("src", "tgt"), start.kept if start else (None, None), strict=True):
        options += [f"--{side}dict", dictionary] if dictionary else [f"--threshold{side}", text.min_count]
    threads = os.cpu_count() or 1
    options += ["-s", languages[0], "-t", languages[1], "--destdir", draft / "bin", "--workers", threads]
    with lines_of("preprocess", options, threads, draft / "binarise.log") as lines:
        for _ in lines:
            pass
    record = {"made_of": made_of, "counts": {"dropped": dropped, **counts}}
    (draft / "prepared.json").write_bytes(dump_json(record))
    draft.replace(folder)
    return Prepared(dropped, **counts)


def _open_sides(stack: ExitStack, folder: Path, name: str, languages: Sequence[str], mode: str = "r") -> list[IO[str]]:
    """Open NAME.LANG for each language."""
    paths = [folder / f"{name}.{language}" for language in languages]
    return [stack.enter_context(path.open(mode, encoding="utf-8", newline="\n")) for path in paths]


def _cutter(language: str, text: TextRecipe, pieces: Path | None = None) -> Callable[[Words], list[str]]:
    """Return a function that cuts words into tokens or, with a file of pieces, into pieces."""
    known: list[str] = []
    ids: dict[str, int] = {}

    def index(piece: str) -> int:
        if piece not in ids:
            ids[piece] = len(known)
            known.append(piece)
        return ids[piece]

    subwords = "sentencepiece" if pieces else "none"
    preprocess = Preprocessor(TextRules(language, text.case, text.tokenizer, subwords, pieces), index)
    return lambda words: [known[i] for i in preprocess(words)[0]]


def _write_words(bitext: Bitext, recipe: Recipe, folder: Path) -> dict[str, int]:
    """Write the words of both texts and, for learning pieces, the tokens of the training text.

    Returns the number of pairs left out, by reason.
    """
    languages = bitext.languages
    valid: deque[tuple[Words, Words]] = deque()
    if bitext.valid:
        valid.extend(pair for pair in read_pairs(*bitext.valid) if all(pair))
    held_out = 0 if bitext.valid else recipe.data.valid_lines  # the last pairs
    waiting: deque[tuple[Words, Words]] = deque()
    tokenize = [_cutter(language, recipe.text) for language in languages]
    train_size, dropped = 0, Counter[str]()
    with ExitStack() as stack:
        outs, tokens = (_open_sides(stack, folder, name, languages, "w") for name in ("train", "train.tokens"))
        for pair in clean(read_pairs(*bitext.train), recipe.data, dropped, valid):
            waiting.append(pair)
            if len(waiting) > held_out:
                train_size += 1
                for words, cut, out, token_out in zip(waiting.popleft(), tokenize, outs, tokens, strict=True):
                    out.write(" ".join(words) + "\n")
                    token_out.write(" ".join(cut(words)) + "\n")
        valid.extend(waiting)
        if not (train_size and valid):
            left_out = "".join(f"; {count:,} left out: {why}" for why, count in dropped.items())
            raise ValueError(f"{bitext.train[0]}: no pairs left to train on{left_out}")
        outs = _open_sides(stack, folder, "valid", languages, "w")
        for pair in valid:
            for words, out in zip(pair, outs, strict=True):
                out.write(" ".join(words) + "\n")
    return dict(dropped)


def _cut(languages: tuple[str, str], text: TextRecipe, folder: Path) -> tuple[dict[str, int], int]:
    """Split both texts into pieces; skip pairs that are too long for the model, or have a side without pieces.

    Returns the numbers of pairs and pieces, by the attributes of `Prepared`, and the number of skipped training pairs.
    """
    cutters = [_cutter(language, text, folder / f"{language}.spm") for language in languages]
    counts, unfit = {"train": 0, "valid": 0, "pieces": 0}, 0
    for name in ("train", "valid"):
        with ExitStack() as stack:
            sides = _open_sides(stack, folder, name, languages)
            cut_outs, outs = (_open_sides(stack, folder, f"{name}.{kind}", languages, "w") for kind in ("cut", "fit"))
            for lines in zip(*sides, strict=True):
                pieces = [cut(split_words(line.removesuffix("\n"))) for cut, line in zip(cutters, lines, strict=True)]
                sizes = [len(side) for side in pieces]
                if min(sizes) > 0 and max(sizes) < text.max_pieces:
                    counts[name] += 1
                    counts["pieces"] += sizes[1] if name == "train" else 0
                    for line, side, cut_out, out in zip(lines, pieces, cut_outs, outs, strict=True):
                        cut_out.write(" ".join(side) + "\n")
                        out.write(line)
                elif name == "train":
                    unfit += 1
        for language in languages:
            (folder / f"{name}.fit.{language}").replace(folder / f"{name}.{language}")
    return counts, unfit
