"""Preparation of a bitext for fairseq: cleaning, tokens and case of the model, pieces, binary files."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TextIO

from align.core.text import split_words
from align.io.manifest import digest_of, dump_json, load_json
from align.io.output import open_output
from align.models.preprocess import Preprocessor, TextRules
from align.training.corpus import Cleaner, Words, read_pairs
from align.training.follow import lines_of
from align.training.pieces import make_pieces
from align.training.recipe import Recipe, TextRecipe
from align.training.start import Start


@dataclass(frozen=True)
class Bitext:
    """Files and selection of the training text.

    Attributes:
        valid: source and target file for validation; None takes the end of the training text.
        labels: file with a label for each training pair.
        take: patterns of the labels to take; empty takes all.
        exclude: source and target files whose pairs must not be trained on.
    """

    languages: tuple[str, str]
    train: tuple[Path, Path]
    valid: tuple[Path, Path] | None = None
    labels: Path | None = None
    take: tuple[str, ...] = ()
    exclude: tuple[tuple[Path, Path], ...] = ()


@dataclass(frozen=True)
class Prepared:
    """A folder of prepared text, and its counts for the model card.

    Attributes:
        folder: contains `bin/` (fairseq's input), `LANG.spm` and `valid.LANG` (the words of the validation text).
        kept: number of pairs that passed cleaning, by label; may include the validation text.
        dropped: number of pairs skipped, by reason.
        pieces: number of target pieces in training pairs, without `</s>`.
    """

    folder: Path
    kept: Mapping[str, int]
    dropped: Mapping[str, int]
    train: int
    valid: int
    pieces: int


class _Fitting(NamedTuple):
    """Counts of pairs within the model's limits."""

    train: int
    valid: int
    pieces: int
    unfit: int


def prepare(
    bitext: Bitext, recipe: Recipe, folder: Path, say: Callable[[str], None], start: Start | None = None
) -> Prepared:
    """Prepare a text for training, unless an earlier run has completed the same text and recipe.

    Args:
        recipe: its data and text tables are used.
        start: initial model whose pieces and dictionaries are used; missing ones are learnt from the text, as are all
            without a model.

    Raises:
        ValueError: the text cannot be used, or the folder has other content; names the reason.
    """
    done, begun = folder / "prepared.json", folder.with_name(f"{folder.name}.preparing")
    digests = [_digest(path) for path in _files(bitext)]
    request = repr((bitext.languages, bitext.take, digests, recipe.data, recipe.text))
    if start:
        request += repr([_digest(path) for path in start.files()])
    if done.is_file():
        stored = load_json(done.read_bytes())
        if stored.pop("asked") != request:
            raise ValueError(f"{folder}: was prepared from another text, recipe or model; name another folder")
        begun.unlink(missing_ok=True)
        return Prepared(folder, **stored)
    if folder.exists() and not begun.exists():
        raise ValueError(f"{folder}: exists and was not made by this program; move it, or name another folder")
    shutil.rmtree(folder, ignore_errors=True)  # left by an interrupted run
    folder.parent.mkdir(parents=True, exist_ok=True)
    begun.touch()
    folder.mkdir()
    say(f"cleaning {bitext.train[0]} and {bitext.train[1]}")
    cleaner = _clean(bitext, recipe, folder)
    make_pieces(folder, bitext.languages, recipe.text, say, start.pieces if start else (None, None))
    say("cutting into pieces")
    fitting = _cut(bitext.languages, recipe.text, folder)
    say("binarising")
    options: list[object] = []
    for side, dictionary in zip(("src", "tgt"), start.kept if start else (None, None), strict=True):
        options += [f"--{side}dict", dictionary] if dictionary else [f"--threshold{side}", recipe.text.min_count]
    binarise(bitext.languages, folder, {"train": "train.cut", "valid": "valid.cut"}, options)
    dropped = dict(cleaner.dropped)
    if fitting.unfit:
        dropped[f"a side has no piece, or {recipe.text.max_pieces} and more"] = fitting.unfit
    prepared = Prepared(folder, dict(cleaner.kept), dropped, fitting.train, fitting.valid, fitting.pieces)
    content = {name: value for name, value in vars(prepared).items() if name != "folder"}
    with open_output(str(done)) as out:
        out.write(dump_json({"asked": request, **content}))
    begun.unlink()
    return prepared


def _files(bitext: Bitext) -> Iterator[Path]:
    for pair in (bitext.train, bitext.valid or (), *bitext.exclude):
        yield from pair
    if bitext.labels:
        yield bitext.labels


def _digest(path: Path) -> str:
    return digest_of(path, hashlib.blake2b(digest_size=16))


@contextmanager
def _writers(folder: Path, name: str, languages: Sequence[str]) -> Iterator[list[TextIO]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context((folder / f"{name}.{language}").open("w", encoding="utf-8", newline="\n"))
            for language in languages
        ]


def _clean(bitext: Bitext, recipe: Recipe, folder: Path) -> Cleaner:
    """Write the words of both texts and, for learning pieces, the tokens of the training text."""
    languages = bitext.languages
    held_out: list[tuple[Words, Words]] = []
    if bitext.valid:
        held_out = [(source, target) for source, target, _ in read_pairs(*bitext.valid) if source and target]
    excluded = [(source, target) for files in bitext.exclude for source, target, _ in read_pairs(*files)]
    cleaner = Cleaner(recipe.data, bitext.take, [*held_out, *excluded])
    with _writers(folder, "train", languages) as outs:
        for pair in cleaner(read_pairs(*bitext.train, bitext.labels)):
            for words, out in zip(pair, outs, strict=True):
                out.write(" ".join(words) + "\n")
    if not bitext.valid:
        held_out = _take_last(folder, languages, recipe.data.valid_lines)
    train_size = sum(cleaner.kept.values()) - (0 if bitext.valid else len(held_out))
    if not (train_size and held_out):
        raise ValueError(f"{bitext.train[0]}: no pairs left to train on; left out: {dict(cleaner.dropped)}")
    with _writers(folder, "valid", languages) as outs:
        for pair in held_out:
            for words, out in zip(pair, outs, strict=True):
                out.write(" ".join(words) + "\n")
    for language in languages:
        write_pieces(folder, ["train"], "tokens", language, _rules(language, recipe.text, None))
    return cleaner


def _take_last(folder: Path, languages: Sequence[str], count: int) -> list[tuple[Words, Words]]:
    """Remove the last pairs from the training text and return them."""
    sides = []
    for language in languages:
        path = folder / f"train.{language}"
        lines = path.read_text(encoding="utf-8").split("\n")[:-1]
        path.write_text("".join(line + "\n" for line in lines[:-count]), encoding="utf-8", newline="\n")
        sides.append([split_words(line) for line in lines[-count:]])
    return list(zip(*sides, strict=True))


def _rules(language: str, text: TextRecipe, pieces: Path | None) -> TextRules:
    return TextRules(language, text.case, text.tokenizer, "sentencepiece" if pieces else "none", pieces)


def write_pieces(folder: Path, names: Sequence[str], suffix: str, language: str, rules: TextRules) -> None:
    """Write the words of NAME.LANG as tokens or pieces to NAME.SUFFIX.LANG."""
    pieces: list[str] = []
    ids: dict[str, int] = {}

    def index(piece: str) -> int:
        if piece not in ids:
            ids[piece] = len(pieces)
            pieces.append(piece)
        return ids[piece]

    preprocess = Preprocessor(rules, index)
    for name in names:
        with (
            (folder / f"{name}.{language}").open(encoding="utf-8", newline="\n") as lines,
            _writers(folder, f"{name}.{suffix}", [language]) as (out,),
        ):
            for line in lines:
                sentence, _ = preprocess(split_words(line.removesuffix("\n")))
                out.write(" ".join(pieces[i] for i in sentence) + "\n")


def _cut(languages: tuple[str, str], text: TextRecipe, folder: Path) -> _Fitting:
    """Split both texts into pieces; skip pairs that are too long for the model, or have a side without pieces."""
    for language in languages:
        write_pieces(folder, ["train", "valid"], "pieces", language, _rules(language, text, folder / f"{language}.spm"))
    train = valid = pieces = unfit = 0
    for name in ("train", "valid"):
        with ExitStack() as stack:
            sides = [
                stack.enter_context((folder / f"{name}.{kind}").open(encoding="utf-8", newline="\n"))
                for kind in (*(f"pieces.{language}" for language in languages), *languages)
            ]
            outs = [
                *stack.enter_context(_writers(folder, f"{name}.cut", languages)),
                *stack.enter_context(_writers(folder, f"{name}.fit", languages)),
            ]
            for lines in zip(*sides, strict=True):
                sizes = [len(split_words(line.removesuffix("\n"))) for line in lines[:2]]
                fits = min(sizes) > 0 and max(sizes) < text.max_pieces
                if fits:
                    for line, out in zip(lines, outs, strict=True):
                        out.write(line)
                if name == "valid":
                    valid += fits
                elif fits:
                    train += 1
                    pieces += sizes[1]
                else:
                    unfit += 1
        for language in languages:
            (folder / f"{name}.fit.{language}").replace(folder / f"{name}.{language}")
    return _Fitting(train, valid, pieces, unfit)


def binarise(
    languages: tuple[str, str], folder: Path, texts: Mapping[str, str], options: Sequence[object] = ()
) -> None:
    """Run fairseq-preprocess to write binary files to FOLDER/bin, and dictionaries unless the options name them.

    Args:
        texts: fairseq's name of each text, e.g. "train", and the prefix of its files' names.

    Raises:
        TrainingError: fairseq-preprocess failed; the message has the last line of its log.
    """
    threads = os.cpu_count() or 1
    arguments: list[object] = ["-s", languages[0], "-t", languages[1], "--destdir", folder / "bin"]
    for name, start in texts.items():
        arguments += [f"--{name}pref", folder / start]
    with lines_of(
        "preprocess", [*arguments, "--workers", threads, *options], threads, folder / "binarise.log"
    ) as lines:
        for _ in lines:
            pass
