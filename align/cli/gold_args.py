"""Options of files of links and gold, for the commands that compare them."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import ClassVar

from align.cli.options import option
from align.core.errors import shorten
from align.evaluation.gold import LinkOptions, OutOfRange
from align.evaluation.link_files import LINK_FORMATS

BASES = {"0-based": 0, "1-based": 1}
SWAPPED = "swapped"


def link_options(text: str) -> LinkOptions:
    """Parse what a file of links leaves open: its format, base and order of sides, with commas between."""
    options = LinkOptions()
    for word in text.split(","):
        if word in LINK_FORMATS and options.format is None:
            options = replace(options, format=word)
        elif word in BASES and options.base is None:
            options = replace(options, base=BASES[word])
        elif word == SWAPPED and not options.swapped:
            options = replace(options, swapped=True)
        else:
            words = ", ".join((*LINK_FORMATS, *BASES, SWAPPED))
            raise argparse.ArgumentTypeError(f"expected one or several of {words}; got {shorten(text, 40)!r}")
    return options


FORMAT_HELP = (
    "format, index base and order of sides, separated by commas, such as talp,1-based. pharaoh: 0-1; talp: also "
    "possible links 0p1; question: also 0?1; naacl: `sentence source target S|P`; giza: A3.final; jsonl. 0-based, "
    "1-based: the first index. swapped: the target side comes first (default: detected, if the file is unambiguous)"
)


@dataclass(frozen=True)
class GoldArgs:
    """Gold links, and how to read them."""

    TITLE: ClassVar = "gold"

    gold: str | None = option(
        "-g", metavar="FILE", short="gold links", help="gold links; .gz, .xz and .zst are decompressed"
    )
    gold_format: LinkOptions | None = option(type=link_options, metavar="FORMAT", help=FORMAT_HELP)
    out_of_range: OutOfRange = option(
        default="stop",
        help="on a link outside its sentence: stop, or continue (in gold, ignore the link; in a hypothesis, count it "
        "as wrong)",
    )

    @property
    def options(self) -> LinkOptions:
        """Return how to read the gold."""
        return replace(self.gold_format or LinkOptions(), out_of_range=self.out_of_range)


@dataclass(frozen=True)
class LinkArgs:
    """Links to judge or to show."""

    TITLE: ClassVar = "links"

    hyp_format: LinkOptions | None = option(
        type=link_options, metavar="FORMAT", help="format of the link files, written as for --gold-format"
    )
