"""Options that several commands share: text, model, method, output, links, speed; and their values."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar, get_args

from align.cli.parser import Parser
from align.core.errors import shorten
from align.core.formats import OUTPUT_FORMATS, WITH_LINES
from align.core.stream import BATCH_TOKENS, BUFFER, GPU_BATCH_TOKENS, SHARED_BUFFER
from align.core.symmetrize import DIRECTIONS, METHODS, SOFT
from align.core.text import LinePair
from align.core.types import CUTS, DTYPES, THRESHOLD, Null, PositionChoice, Score, Search
from align.io.output import link_target, temporary_name
from align.io.reader import Input, regular_file
from align.models.defaults import ALIGNING_MODEL, ALIGNING_REVERSE, AUTO, DEFAULT_MODEL
from align.models.languages import check_language

T = TypeVar("T")

MAX_THREADS = 1024
"""More than any machine has cores; with very many torch ends the process without a message of ours."""

BATCH_ADVICE = "a smaller --batch-tokens needs less"
"""What helps where memory runs out once a model is loaded."""


def number_or(*words: str) -> Callable[[str], int | str]:
    """Return a parser of arguments that are a number from 1 or one of some words."""

    def parse(text: str) -> int | str:
        if text in words:
            return text
        if text.isascii() and text.isdigit() and int(text) >= 1:
            return int(text)
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number from 1 nor {' or '.join(words)}")

    return parse


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return a parser of whole numbers from `least`, up to `most` if there is one."""

    def parse(text: str) -> int:
        highest = sys.maxsize if most is None else most
        if text.isascii() and text.isdigit() and len(text) <= len(str(highest)) and least <= int(text) <= highest:
            return int(text)
        limit = "" if most is None else f" to {most:,}"
        raise argparse.ArgumentTypeError(f"{shorten(text, 40)!r} is not a number from {least}{limit}")

    return parse


seed_number = whole_number(0, 2**32 - 1)
"""An argument that is the seed of random numbers, of which scikit-learn takes 32 bits."""


def language_code(text: str) -> str:
    """Parse a language code."""
    try:
        return check_language(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def file_prefix(text: str) -> Path:
    """Parse the beginning of file names."""
    if text.endswith(os.sep) or not Path(text).name:
        raise argparse.ArgumentTypeError(
            f"{text!r} is a folder, not the beginning of file names, such as figures/model"
        )
    return Path(text)


def one_or_two(parse_one: Callable[[str], T]) -> Callable[[str], tuple[T, ...]]:
    """Return a parser of one value, or of two separated by a comma."""

    def parse(text: str) -> tuple[T, ...]:
        parts = text.split(",")
        if len(parts) > 2:
            raise argparse.ArgumentTypeError(f"{text!r} is neither one nor two with a comma between")
        return tuple(map(parse_one, parts))

    return parse


def number_up_to(most: int, nothing: str | None = None) -> Callable[[str], float | None]:
    """Return a parser of numbers from 0 to `most`, or of the word that stands for None."""

    def parse(text: str) -> float | None:
        if text == nothing:
            return None
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if 0 <= number <= most:
            return number
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number from 0 to {most}" + (f" or {nothing}" if nothing else "")
        )

    return parse


SHORT = {
    "errors": "show the N worst sentences of each system",
    "format": "format of the output",
    "gold": "gold links",
    "head": "attention head (1 is the first), all, or auto",
    "input": "files to read (default: stdin)",
    "layer": "decoder layer (1 is the lowest), or auto",
    "links": "use these links instead of a model",
    "model": "bundled model, folder, checkpoint or hub name",
    "output": "write to FILE (default: stdout)",
    "paired": "test all systems against the first",
    "port": "port to listen at",
    "position": "input, output or both",
    "resume": "resume an interrupted run",
    "reverse_model": "align in both directions, and symmetrise",
    "source": "source sentences",
    "symmetrize": "how to combine the two directions",
    "tags": "xml, html, placeholders, bio, conll or spans",
    "target": "target sentences",
    "threads": "CPU threads",
    "token_file": "file with the token of requests",
    "translate": "read source sentences and translate them",
}
"""What `-h` says of an option, by the name of its value."""


def options_of(kind: type[T], args: argparse.Namespace, **others: Any) -> T:
    """Return the options of a command, a dataclass: the parsed values of the same names, and those of `others`."""
    names = [field.name for field in fields(kind) if field.name not in others]  # type: ignore[arg-type]
    return kind(**{name: getattr(args, name) for name in names}, **others)


def new_parser(program: str, description: str, examples: str, short: Sequence[str] = ()) -> Parser:
    """Return the parser of a program, with --help and examples at its end.

    Args:
        examples: command lines, each followed by three spaces and what it does.
        short: options that `-h` shows, keys of SHORT.
    """
    return Parser(prog=program, description=description, epilog=examples, short={name: SHORT[name] for name in short})


def add_quiet_option(parser: argparse.ArgumentParser) -> None:
    """Add `--quiet`."""
    parser.add_argument("-q", "--quiet", action="store_true", help="nothing on stderr but warnings and errors")


def add_signature_option(parser: argparse.ArgumentParser) -> None:
    """Add `--signature`."""
    parser.add_argument(
        "--signature", action="store_true", help="print the signature of these settings, and read no text"
    )


def add_output_option(group: Any) -> None:
    """Add `--output`."""
    group.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="written whole or not at all; .gz, .xz and .zst are packed (default: stdout)",
    )


ALIGNING_DEFAULT = (
    f"{ALIGNING_MODEL}; {DEFAULT_MODEL} to translate, with another --reverse-model than {ALIGNING_REVERSE}, and with "
    f"options of scores, layers, heads, null or a position; from en to de {ALIGNING_REVERSE} or en-de"
)
"""Which model a program that aligns takes, for its help."""


def add_model_options(
    parser: argparse.ArgumentParser, default: str = DEFAULT_MODEL, use: str = "", causal: bool = True
) -> None:
    """Add the model and its languages.

    Args:
        default: what is taken where no model is named.
        use: what the model is for, if that is not the program's purpose.
        causal: whether it may be decoder-only.
    """
    group = parser.add_argument_group(f"model{use}")
    group.add_argument(
        "-m",
        "--model",
        metavar="MODEL",
        help=f"a bundled model, a folder, a fairseq checkpoint, or a Hugging Face name (default: {default}); "
        "`extract-align models describe` stores what its files do not say",
    )
    add_languages(group)
    if causal:
        add_template(group)


def add_languages(group: Any) -> None:
    """Add the languages of a model."""
    group.add_argument(
        "--source-lang",
        metavar="LANG",
        type=language_code,
        help="source language, as in dict.LANG.txt, or the Hugging Face model's own code, such as deu_Latn",
    )
    group.add_argument("--target-lang", metavar="LANG", type=language_code, help="target language")


def add_template(group: Any) -> None:
    """Add the prompt of a decoder-only model."""
    group.add_argument(
        "--template",
        metavar="TEMPLATE",
        help="prompt of a decoder-only model: chat, tower, alma, x-alma, eurollm, translategemma, or a text with "
        "{source}, {source_lang}, {target_lang} and, if it is no message for the model's chat template, {target} at "
        "its end (default: chat)",
    )


def add_null_option(group: Any) -> None:
    """Add the option for the source's `</s>`."""
    group.add_argument(
        "--null",
        choices=get_args(Null),
        help="eos: words that attend to the source's </s> most stay unaligned; mask: hide </s> from attention; "
        "none: leave </s> out of the choice; with decoder-only models all but the source counts as </s> (default: mask "
        "for these, else eos)",
    )


def add_speed_options(parser: argparse.ArgumentParser, buffer_help: str | None) -> Any:
    """Add device, precision and sizes; return the group.

    Args:
        buffer_help: what --buffer does; None where nothing is read ahead.
    """
    group = parser.add_argument_group("speed")
    group.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to run the model")
    group.add_argument(
        "--dtype",
        choices=DTYPES,
        default="float32",
        help="precision of matrix products; bfloat16 and, on a CPU, int8 are faster and change a few links",
    )
    group.add_argument(
        "--threads",
        type=whole_number(1, MAX_THREADS),
        metavar="N",
        help="CPU threads in all (default: all cores, or as many as a container's CPU quota allows)",
    )
    group.add_argument(
        "--batch-tokens",
        type=whole_number(1),
        metavar="N",
        help=f"pieces in a batch, padding included (default: {BATCH_TOKENS}, on a GPU {GPU_BATCH_TOKENS})",
    )
    if buffer_help is not None:
        group.add_argument("--buffer", type=whole_number(1), default=BUFFER, metavar="N", help=buffer_help)
    return group


def add_workers_option(group: Any) -> None:
    """Add the number of processes."""
    group.add_argument(
        "--workers",
        type=whole_number(1, MAX_THREADS),
        metavar="N",
        help="processes that share the text, each with one of the threads; 1: one process with all of them (default: "
        f"as many as threads; 1 on a GPU, at a keyboard, and with a --buffer under {SHARED_BUFFER})",
    )


def add_input_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the input and for lines that cannot be read."""
    group = parser.add_argument_group("input (UTF-8; .gz, .xz and .zst are unpacked; - is stdin)")
    group.add_argument(
        "input",
        nargs="*",
        metavar="FILE",
        help="lines `source ||| target` or `source TAB target`; several are one text (default: stdin)",
    )
    group.add_argument("-s", "--source", metavar="FILE", help="source sentences; requires -t")
    group.add_argument("-t", "--target", metavar="FILE", help="target sentences; requires -s")
    group.add_argument(
        "--columns",
        type=column_numbers,
        default=(),
        metavar="N,N",
        help="which columns of a FILE of TABs are source and target, from 1, where there are more of them",
    )
    add_bad_lines_option(group, "a line that has not two fields, is not UTF-8, or is longer than the model takes")


def add_bad_lines_option(
    group: Any, lines: str, stop: str = "stop", blank: str = "read a blank line in its place"
) -> None:
    """Add the policy for lines that cannot be read."""
    group.add_argument("--bad-lines", choices=("stop", "blank"), default="stop", help=f"at {lines}: {stop}, or {blank}")


def column_numbers(text: str) -> tuple[int, ...]:
    """Parse an argument of one or two numbers from 1."""
    numbers = text.split(",")
    if len(numbers) > 2 or not all(n.isascii() and n.isdigit() and 1 <= len(n) <= 4 and int(n) for n in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is not two numbers from 1, such as 2,3")
    return tuple(map(int, numbers))


def read_input(
    parser: argparse.ArgumentParser, args: argparse.Namespace, *others: str | None, one_side: bool = False
) -> Input:
    """Read the options of the input.

    Half a pair of files, both ways at once, stdin for two files, and output over input are refused, with exit code 2.

    Args:
        one_side: whether there are source sentences only, and a target is what is refused.
    """
    if one_side and args.target is not None:
        parser.error("--translate writes the target side itself: leave out -t/--target")
    if not one_side and (args.source is None) != (args.target is None):
        parser.error("-s/--source and -t/--target go together")
    if args.source is not None and args.input:
        parser.error("either FILEs of both sides, or -s and -t" if not one_side else "either FILE or -s FILE")
    parallel = args.target is not None
    if args.columns and parallel:
        parser.error("--columns requires FILE, not -s and -t")
    if args.columns and len(args.columns) != 2 - one_side:
        parser.error(f"--columns takes {'one number with --translate' if one_side else 'two numbers: source,target'}")
    if len(set(args.columns)) < len(args.columns):
        parser.error("--columns takes two columns: source and target cannot be the same")
    files = tuple(args.input) or ("-",)
    if args.source is not None:
        files = (args.source, args.target) if parallel else (args.source,)
    check_files(parser, (*files, *others), args.output)
    return Input(files, parallel, one_side, args.columns, args.bad_lines == "blank")


def with_lines(text: Input, format: str, words: str = "spaces") -> Input:
    """Return an input whose pairs keep their lines if the format of links, or what a word is, needs them."""
    return replace(text, make=LinePair.of) if format in WITH_LINES or words != "spaces" else text


def check_files(
    parser: argparse.ArgumentParser, names: Iterable[str | None], output: str | None, option: str = "-o"
) -> None:
    """Refuse, with exit code 2, stdin for two files, and output over input.

    Args:
        names: all files to read; `-` is stdin.
        output: the file to write; None or `-` for stdout.
    """
    files = [name for name in names if name is not None]
    if files.count("-") > 1:
        parser.error("only one of the files can be stdin")
    if output == "":
        parser.error(f"{option} needs the name of a file")
    to_stdout = output in (None, "-")
    written = [regular_file(sys.stdout if to_stdout else output)]
    if output and not to_stdout:
        written.append(regular_file(temporary_name(link_target(output))))
    for name in files:
        file = regular_file(sys.stdin if name == "-" else name)
        if file and any(other and os.path.samestat(file, other) for other in written):
            shown = "on stdin" if name == "-" else name
            parser.error("stdout is the input file" if to_stdout else f"{option} would replace the input {shown}")


METHOD = "method (Kobayashi et al., EMNLP 2020)"


def check_second_output(
    parser: argparse.ArgumentParser, names: Iterable[str | None], second: str, output: str | None, option: str
) -> None:
    """Refuse, with exit code 2, a second file to write that is an input or the output; see `check_files`."""
    if second in ("", "-") or (output and os.path.realpath(second) == os.path.realpath(output)):
        parser.error(f"{option} needs the name of a file, another than that of -o")
    check_files(parser, names, second, option)


def add_method_options(group: Any) -> None:
    """Add the options of reading attention."""
    group.add_argument(
        "--score",
        choices=get_args(Score),
        default="norm",
        help="attention weight, or norm of the attention-weighted vector",
    )
    group.add_argument(
        "--position",
        choices=get_args(PositionChoice),
        help="align a target word by the decoder step that reads it (input), predicts it (output), or by both, "
        "which is more accurate; input is the fastest; auto reads one alone if its links are clearly more consistent "
        "(default: auto for decoder-only models, input for distilled ones, both for others)",
    )
    group.add_argument(
        "--layer",
        type=one_or_two(number_or("auto")),
        default="auto",
        metavar="N[,N]",
        help="decoder layer (1 is the lowest); 1,2 sets those of the input and the output position; auto: what the "
        "model stores, or else chosen by lexical consistency on the first buffer of lines",
    )
    group.add_argument(
        "--head",
        type=one_or_two(number_or("auto", "all")),
        default="auto",
        metavar="N[,N]",
        help="attention head (1 is the first), or all heads together; 1,all as for --layer",
    )
    add_null_option(group)


def add_reverse_options(group: Any) -> None:
    """Add the option of a reverse model."""
    group.add_argument(
        "--reverse-model",
        metavar="MODEL",
        help="align with this model too, which translates target to source, and symmetrise; a bundled model, a folder, "
        "a checkpoint with its model.toml, or a Hugging Face name. A model of many languages may be given for both "
        "directions: it is loaded once, and --source-lang and --target-lang are swapped. It is read at the layers and "
        "heads that it stores, or else chooses",
    )


def add_threshold_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of extracting links from attention."""
    group = parser.add_argument_group(METHOD)
    add_method_options(group)
    group.add_argument(
        "--threshold",
        type=number_up_to(1, "none"),
        default=THRESHOLD,
        metavar="T",
        help="link all words whose soft score is above it, from 0 to 1; higher: fewer and surer links; none: link each "
        "target word with its best source word",
    )
    add_reader_option(group)


def add_reader_option(group: Any) -> None:
    """Add `--reader`."""
    group.add_argument(
        "--reader",
        metavar="READER",
        default=AUTO,
        help="trained reader, which gives links their scores: a file (`extract-align train reader`), or a bundled "
        "model, whose reader suits other models, too; none: soft scores (default: reader.safetensors next to the "
        "model, as bundled models have it, if the model is read as usual)",
    )


def add_direction_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a reverse model."""
    group = parser.add_argument_group("two directions")
    add_reverse_options(group)
    group.add_argument(
        "--symmetrize",
        choices=(SOFT, *METHODS, *DIRECTIONS),
        metavar="HOW",
        help=f"soft: by the scores of both models; {', '.join(METHODS)}; forward, reverse: one direction, as it is "
        f"(default: {SOFT})",
    )


def add_result_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the output and its format."""
    group = add_result_files(parser)
    group.add_argument(
        "-f",
        "--format",
        choices=OUTPUT_FORMATS,
        default="pharaoh",
        metavar="FORMAT",
        help="pharaoh: 0-based source-target; talp: the same, all sure; jsonl: words, links, scores, unlinked words; "
        "naacl: a line for each link, from 1; giza: three lines for each pair, as in A3.final; offsets: 0:2-0:3, by "
        "characters of the lines as given; tsv: source, target and links between TABs",
    )
    group.add_argument(
        "--print-scores",
        dest="scores",
        action="store_true",
        help="links as 0-1:0.83, or 0:2-0:3/0.83: shares of the target word's row, or soft scores",
    )
    add_words_option(group, "unit that links count on both sides")


def add_result_files(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the options of the files that are written, and return their group."""
    group = parser.add_argument_group("output (one line for each line of input, in the same order)")
    add_output_option(group)
    group.add_argument(
        "--bad-lines-file",
        metavar="LIST",
        help="with --bad-lines blank: list those lines, as file, line number and reason between TABs",
    )
    group.add_argument(
        "--resume",
        action="store_true",
        help="with -o FILE: resume an interrupted run; the result is the same, byte for byte. Finished blocks are in "
        "FILE.parts until the run is complete; remove this folder to start over. FILE.run.json records the run: "
        "repeating the same command does nothing, and another existing FILE is refused",
    )
    return group


def add_words_option(group: argparse._ArgumentGroup, unit: str) -> None:
    """Add the option for text without spaces; check it with `check_words`."""
    group.add_argument(
        "--words",
        choices=CUTS,
        default="spaces",
        help=f"{unit}: words between spaces; segmented: the same, but the model does not see the spaces next to "
        "Chinese, Japanese or Thai; in text without spaces each character, each piece of the model, or a word of "
        "ICU's dictionaries",
    )


def check_words(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Refuse --translate with other words than those between spaces, with exit code 2."""
    if args.words != "spaces" and args.translate:
        parser.error(f"--words {args.words} cannot be combined with --translate")


TABLES = ("text", "json", "tsv", "latex")
"""Keys of `align.evaluation.tables.TABLES`, whose libraries other options do without."""


def add_table_options(group: Any) -> None:
    """Add the format of tables."""
    group.add_argument(
        "-f",
        "--format",
        choices=TABLES,
        default="text",
        metavar="FORMAT",
        help=f"of tables: {', '.join(TABLES)}",
    )
    group.add_argument(
        "--all-columns", dest="wide", action="store_true", help="all columns and whole names, wider than 80 characters"
    )


MAX_BEAM = 1000
"""Each step scores beam times vocabulary; translations get worse, not better, long before a beam so wide."""


def add_translate_options(parser: argparse.ArgumentParser, written: str = "`translation ||| links`") -> None:
    """Add the options of translating."""
    group = parser.add_argument_group("translation (by the model itself, which then aligns what it has written)")
    group.add_argument(
        "--translate",
        action="store_true",
        help=f"lines of the input, or of -s FILE, are source sentences; write {written} for each",
    )
    add_beam_option(group)
    group.add_argument(
        "--allow-unk",
        action="store_true",
        help="leave <unk> in translations; without this, the aligned source word takes the place of an unknown one",
    )


def add_beam_option(group: argparse._ActionsContainer) -> None:
    """Add the width of the search."""
    group.add_argument(
        "--beam", type=whole_number(1, MAX_BEAM), default=Search().beam, metavar="N", help="width of the beam search"
    )
