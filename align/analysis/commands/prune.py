"""`analyse-attention prune`: a fairseq model without the heads that it needs least."""

from __future__ import annotations

import argparse
import errno
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from align.analysis.commands.ablate import files_shown, names_of, read_pairs
from align.analysis.commands.asked import load_aligner
from align.analysis.commands.common import Common, Texts, add_text_files, read_texts
from align.cli.models import ModelRequest
from align.cli.options import whole_number
from align.cli.parser import Idle, Parser
from align.core.errors import ModelError
from align.core.settings import Settings
from align.io.signature import Parts
from align.models.folder import find_model
from align.models.model_toml import ModelOptions
from align.view.findings import Finding

if TYPE_CHECKING:
    from align.analysis.ablation.pruning import Order

SUMMARY = "A fairseq model without the heads that it needs least to translate: smaller, faster, for this package only"

EXAMPLES = """examples:
  analyse-attention prune -s valid.de -t valid.en --heads 9 -o smaller      which extract-align -m smaller reads
"""

REFUSED = ("parts", "plots")
"""Options of other commands that do nothing in this one."""


@dataclass(frozen=True)
class Options:
    """What the command line asks for.

    Attributes:
        texts: what to read.
        heads: how many are to go.
        order: what decides which.
        output: a new folder.
    """

    texts: Texts
    heads: int
    order: Order
    output: Path


def add_options(parser: Parser) -> None:
    """What this command takes beside what all take."""
    add_text_files(parser, "their translations, whose loss decides", one_side=False)
    group = parser.add_argument_group("pruning")
    group.add_argument("--heads", type=whole_number(1), required=True, metavar="N", help="how many heads are to go")
    group.add_argument(
        "--order",
        choices=("importance", "effect"),
        default="importance",
        help="which go first: those on whose gates the loss depends least, or those without which it rises least",
    )
    group.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="a new folder for the model")


def read_options(parser: Parser, args: argparse.Namespace) -> Options:
    """The command line, checked."""
    parser.refuse_idle(args, (Idle(REFUSED, lambda args: True, "has no effect here"),))
    return Options(read_texts(parser, args), args.heads, args.order, args.output)


def answer(common: Common, options: Options) -> tuple[Finding, Parts]:
    """Choose heads, write the model without them, and read it again."""
    pairs = read_pairs(options.texts.input)[: options.texts.lines]
    if options.output.exists():
        raise FileExistsError(errno.EEXIST, "there is such a file or folder: name a new one", str(options.output))
    whole = load_aligner(common)
    from align.analysis.ablation.pruning import least_needed, pruning, size_of
    from align.analysis.ablation.question import Ablation
    from align.analysis.pruned_model import write_pruned
    from align.models.recorder import ModelRecorder

    recorder = whole.forward.recorder
    if not (isinstance(recorder, ModelRecorder) and recorder.backend == "fairseq"):
        raise ModelError(f"{recorder.name}: heads can be taken out of fairseq models only")
    request = common.models.forward
    folder = find_model(request.name, request.options)
    before = Ablation(whole, pairs, file=files_shown(options.texts.input))
    heads = least_needed(before, options.heads, options.order)
    write_pruned(folder, recorder, heads, options.output)
    smaller = ModelRequest(str(options.output), Settings(), ModelOptions())
    left = load_aligner(replace(common, models=replace(common.models, forward=smaller)), whole=False)
    written = find_model(smaller.name, smaller.options)
    sizes = {
        "whole": size_of(before, folder.checkpoint),
        "pruned": size_of(Ablation(left, pairs), written.checkpoint),
    }
    parts: Parts = {
        "model": recorder.name,
        "text": names_of(options.texts.input),
        "n": len(pairs),
        "order": options.order,
        "pruned": left.forward.recorder.name,
    }
    return pruning(heads, sizes), parts
