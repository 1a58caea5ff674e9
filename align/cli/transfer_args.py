"""Options of `extract-align transfer`."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass

from align.cli.loading import Request
from align.cli.options import option
from align.core.errors import shorten
from align.transfer.columns import COLUMNS, ENTITY, read_column
from align.transfer.pages import KEEP
from align.transfer.spans import SPANS
from align.transfer.tags import KINDS, Syntax

LABELS = (*COLUMNS, SPANS)


def _pattern(text: str) -> tuple[re.Pattern[str], ...]:
    """Read a regular expression; of several, each keeps its own groups and flags."""
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"invalid regular expression {shorten(text)!r}: {error}") from None
    if pattern.search(""):
        raise argparse.ArgumentTypeError(f"the expression {shorten(text)!r} matches an empty text")
    return (pattern,)


def _names(text: str) -> tuple[str, ...]:
    """Read names with commas between."""
    return tuple(name.strip().lower() for name in text.split(",") if name.strip())


def _column(name: str) -> str:
    try:
        return read_column(name)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


@dataclass(frozen=True)
class TransferArgs:
    """Tags or labels, what to do with them, where the source and the links are, and lists of tags."""

    tags: str | None = option(
        choices=(*KINDS, *LABELS),
        metavar="KIND",
        short="xml, html, placeholders, bio, words, conll, spans",
        help="xml: well-formed; html: any HTML; placeholders: {0}, {name}, %%s, %%1$d and the like; xml,placeholders "
        "and html,placeholders: both; bio: labels B-X, I-X and O in the last column of -s, words in its first; words: "
        "any label of each word there; conll: a column of CoNLL-U; spans: JSON lines "
        '{"text": ..., "labels": [[0, 4, "PER"], ...], "target": ...}, counted in characters',
    )
    placeholder: tuple[re.Pattern[str], ...] = option(
        default=(),
        type=_pattern,
        metavar="REGEX",
        help="further placeholders, as a Python regular expression such as \\[id[0-9]+\\]; may be repeated",
    )
    repair: bool = option(
        default=False,
        help="the target comes from a translator that loses or damages tags: remove those that the source does not "
        "have (except placeholders of other syntaxes), write damaged ones as in the source, and put in missing ones",
    )
    check: bool = option(default=False, help="only list faults of finished translations; any gives exit code 1")
    use_fuzzy: bool = option(default=False, help="read the fuzzy messages of a PO file, too")
    split: bool = option(default=False, help="repeat a tag if the target words that it belongs to are not adjacent")
    column: str = option(
        default=ENTITY,
        type=_column,
        metavar="NAME",
        help="column of CoNLL-U: NER, which is labels B-X, I-X and O of the key NER in MISC (default); or LEMMA, UPOS, "
        "XPOS, FEATS, DEPREL or MISC:KEY, which have one label for each word",
    )
    strip: bool = option(default=False, help="write the source without tags; read no target")
    keep: tuple[str, ...] = option(
        default=(),
        type=_names,
        metavar="NAMES",
        help='elements that --translate copies unchanged, separated by commas; also those with translate="no" or '
        f'class="notranslate", addresses, paths and placeholders of templates (default: {",".join(KEEP)})',
    )
    attributes: tuple[str, ...] = option(
        default=(),
        type=_names,
        metavar="NAMES",
        help="attributes whose values are text, such as alt,title,placeholder (default: none)",
    )
    html_file: str | None = option(
        metavar="FILE",
        help="read a whole page, as FILE.html is, block by block. --strip writes a line for each block, and -t reads "
        "such lines",
    )
    links: str | None = option(
        metavar="FILE",
        short="use these links instead of a model",
        help="links of the lines without tags, as extract-align writes them: Pharaoh, or jsonl; best with "
        "--print-scores. Without it a model aligns the lines",
    )
    report: str | None = option(
        writes=True,
        metavar="FILE",
        help="write a JSON object for each line: the place of each tag, its confidence, and remarks",
    )
    review: str | None = option(
        writes=True,
        metavar="FILE",
        help="write doubtful lines as number, confidence, remarks, source and output, separated by TABs",
    )


@dataclass(frozen=True)
class Options:
    """What `extract-align transfer` is asked for."""

    request: Request
    tags: TransferArgs
    files: tuple[str, ...]  # one of both sides, or of the source alone, or one of each; "-" is stdin
    syntax: Syntax | None  # what the tags look like; None for labels
    words: str
    output: str | None
    blank: bool
    kept: str  # file for the numbers of lines that are not dropped; empty if there is none

    @property
    def one_side(self) -> bool:
        """Return whether there is no target to read."""
        return self.tags.strip or self.request.search is not None
