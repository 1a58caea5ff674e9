"""Preparation of a bitext for fairseq: cleaning, tokens and case of the model, pieces, binary files."""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TextIO

from align.core.errors import DataError
from align.core.text import split_words
from align.io.manifest import digest_of, dump_json, load_json
from align.io.output import open_output
from align.io.reader import in_step, open_lines, read_lines, refuse_numbers
from align.models.preprocess import UNSPACED, Preprocessor, TextRules
from align.training.follow import lines_of
from align.training.recipe import DataRecipe, Recipe, Start, TextRecipe

Words = tuple[str, ...]

_units = re.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}]+").findall
"""Finds words between spaces, and each character of the scripts that have none."""


def read_pairs(source: Path, target: Path, labels: Path | None = None) -> Iterator[tuple[Words, Words, str]]:
    """Yield the pairs of two files with as many lines, and the label of each.

    Args:
        source: one sentence per line; `.gz`, `.xz` and `.zst` are unpacked.
        labels: one word per line, e.g. the pair's origin; without it all labels are "".

    Raises:
        DataError: the files differ in their number of lines, one cannot be decoded, or its lines start with running
            numbers; names file and line.
    """
    paths = [str(path) for path in (source, target, *([labels] if labels else []))]
    for lines in refuse_numbers(in_step([_lines(path) for path in paths], paths), paths[:2]):
        yield _words(lines[0]), _words(lines[1]), lines[2].strip() if labels else ""


def _words(line: str) -> Words:
    """Split a line into words, also at carriage returns, which other programs would treat as line ends."""
    return split_words(line.replace("\r", " "))


def _lines(path: str) -> Iterator[str]:
    with open_lines(path) as stream:
        yield from read_lines(stream, path, json_lines=False)


def _key(source: Words, target: Words) -> bytes:
    """Return a 16-byte digest of a pair that ignores case and spaces."""
    text = f"{''.join(source)}\t{''.join(target)}".lower()
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class Cleaner:
    """Selects the pairs to train on.

    Args:
        take: file-name patterns of the labels to take; empty takes all.
        exclude: pairs to skip, e.g. those of the test set.

    Attributes:
        dropped: number of pairs skipped, by reason.
        kept: number of pairs taken, by label.
    """

    def __init__(
        self, recipe: DataRecipe, take: Sequence[str] = (), exclude: Iterable[tuple[Words, Words]] = ()
    ) -> None:
        self._recipe, self._take = recipe, take
        self._excluded = {_key(*pair) for pair in exclude}
        self._seen: set[bytes] = set()
        self.dropped: Counter[str] = Counter()
        self.kept: Counter[str] = Counter()

    def __call__(self, pairs: Iterable[tuple[Words, Words, str]]) -> Iterator[tuple[Words, Words]]:
        """Yield the pairs to train on, in order."""
        for source, target, label in pairs:
            if reason := self._reason(source, target, label):
                self.dropped[reason] += 1
            else:
                self.kept[label] += 1
                yield source, target

    def _reason(self, source: Words, target: Words, label: str) -> str:
        """Return the reason to skip a pair; "" to take it."""
        recipe = self._recipe
        if self._take and not any(fnmatchcase(label, pattern) for pattern in self._take):
            return "label not taken"
        if not source or not target:
            return "a side is empty"
        short, long = sorted(len(_units(" ".join(side))) for side in (source, target))
        if long > recipe.max_words:
            return f"a side has more than {recipe.max_words} words"
        if long > recipe.max_ratio * short:
            return f"a side is more than {recipe.max_ratio:g} times as long as the other"
        key = _key(source, target)
        if key in self._excluded:
            return "in the validation or an excluded text"
        if key in self._seen:
            return "seen before"
        self._seen.add(key)
        return ""


def make_pieces(
    folder: Path, languages: Sequence[str], text: TextRecipe, say: Callable[[str], None], given: Sequence[Path | None]
) -> None:
    """Write LANG.spm for each language.

    Args:
        folder: contains train.tokens.LANG; output folder for LANG.spm.
        given: sentencepiece model to copy, per language; None trains one.

    Raises:
        ValueError: the text is too small for this number of pieces.
    """
    for language, model in zip(languages, given, strict=True):
        path = folder / f"{language}.spm"
        if model:
            shutil.copyfile(model, path)
        else:
            say(f"learning {text.vocabulary:,} pieces of {language}")
            learn_pieces(folder / f"train.tokens.{language}", path, language, text)


def learn_pieces(tokens: Path, path: Path, language: str, text: TextRecipe) -> None:
    """Train sentencepiece BPE.

    Args:
        tokens: the training text in tokens, one sentence per line.
    """
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
        try:
            stored = load_json(done.read_bytes())
            stored_request, prepared = stored.pop("asked"), Prepared(folder, **stored)
        except (ValueError, TypeError, AttributeError, KeyError):
            raise DataError(f"damaged; remove {folder} to prepare the text again", file=str(done)) from None
        if stored_request != request:
            raise ValueError(f"{folder}: was prepared from another text, recipe or model; name another folder")
        begun.unlink(missing_ok=True)
        return prepared
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
    counts, unfit = _cut(bitext.languages, recipe.text, folder)
    say("binarising")
    options: list[object] = []
    for side, dictionary in zip(("src", "tgt"), start.kept if start else (None, None), strict=True):
        options += [f"--{side}dict", dictionary] if dictionary else [f"--threshold{side}", recipe.text.min_count]
    binarise(bitext.languages, folder, {"train": "train.cut", "valid": "valid.cut"}, options)
    dropped = dict(cleaner.dropped)
    if unfit:
        dropped[f"a side has no piece, or {recipe.text.max_pieces} and more"] = unfit
    prepared = Prepared(folder, dict(cleaner.kept), dropped, **counts)
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


def _write(folder: Path, name: str, languages: Sequence[str], pairs: Iterable[tuple[Words, Words]]) -> None:
    with _writers(folder, name, languages) as outs:
        for pair in pairs:
            for words, out in zip(pair, outs, strict=True):
                out.write(" ".join(words) + "\n")


def _clean(bitext: Bitext, recipe: Recipe, folder: Path) -> Cleaner:
    """Write the words of both texts and, for learning pieces, the tokens of the training text."""
    languages = bitext.languages
    held_out: list[tuple[Words, Words]] = []
    if bitext.valid:
        held_out = [(source, target) for source, target, _ in read_pairs(*bitext.valid) if source and target]
    excluded = [(source, target) for files in bitext.exclude for source, target, _ in read_pairs(*files)]
    cleaner = Cleaner(recipe.data, bitext.take, [*held_out, *excluded])
    _write(folder, "train", languages, cleaner(read_pairs(*bitext.train, bitext.labels)))
    if not bitext.valid:
        held_out = _take_last(folder, languages, recipe.data.valid_lines)
    train_size = sum(cleaner.kept.values()) - (0 if bitext.valid else len(held_out))
    if not (train_size and held_out):
        left_out = "".join(f"; {count:,} left out: {why}" for why, count in cleaner.dropped.items())
        raise ValueError(f"{bitext.train[0]}: no pairs left to train on{left_out}")
    _write(folder, "valid", languages, held_out)
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


def _cut(languages: tuple[str, str], text: TextRecipe, folder: Path) -> tuple[dict[str, int], int]:
    """Split both texts into pieces; skip pairs that are too long for the model, or have a side without pieces.

    Returns the numbers of pairs and pieces, by the attributes of `Prepared`, and the number of skipped training pairs.
    """
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
    return {"train": train, "valid": valid, "pieces": pieces}, unfit


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
