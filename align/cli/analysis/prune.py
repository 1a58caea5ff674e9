"""`analyse-attention prune`: a fairseq model without the heads that it needs least."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path

from align.backends.model_folder import find_model
from align.backends.model_toml import ModelOptions
from align.cli.analysis.ablate import load_aligner, read_pairs
from align.cli.analysis.common import Common, add_text_files, read_texts
from align.cli.inputs import name_shown
from align.cli.models import ModelRequest
from align.cli.options import whole_number
from align.cli.parser import Parser
from align.errors import ModelError
from align.signature import Parts
from align.types import Settings
from align.view.report import Finding

SUMMARY = "A fairseq model without the heads that it needs least to translate: smaller, faster, for this package only"

EXAMPLES = """examples:
  analyse-attention prune -s valid.de -t valid.en --heads 9 -o smaller      which extract-align -m smaller reads
"""


def add_options(parser: Parser) -> None:
    """What this command takes beside what all take."""
    add_text_files(parser, "their translations, whose loss decides")
    group = parser.add_argument_group("pruning")
    group.add_argument("--heads", type=whole_number(1), required=True, metavar="N", help="how many heads are to go")
    group.add_argument(
        "--order",
        choices=("importance", "effect"),
        default="importance",
        help="which go first: those whose gate the loss depends on least, or those without which it is lowest",
    )
    group.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="a new folder for the model")


def answer(parser: Parser, args: argparse.Namespace, common: Common) -> tuple[Finding, Parts]:
    """Choose, write the folder, and read it again."""
    texts = read_texts(parser, args)
    if args.parts or args.plots:
        parser.error(f"{'--parts' if args.parts else '--plots'} has no effect here")
    pairs = read_pairs(texts)[: texts.lines]
    if args.output.exists():
        raise FileExistsError(17, "there is such a file or folder; a new one is needed", str(args.output))
    whole = load_aligner(common)
    from align.analysis.ablation import Ablation
    from align.analysis.heads import all_heads
    from align.analysis.pruning import Size, least_needed, loss_of, pruning
    from align.backends.fairseq.pruning import write_pruned
    from align.backends.fairseq.recorder import FairseqRecorder

    if not isinstance(whole.recorder, FairseqRecorder):
        raise ModelError(f"{whole.recorder.name}: heads can be taken out of fairseq models only")
    request = common.models.forward
    folder = find_model(request.name, request.options)
    ablation = Ablation(whole, pairs)
    heads = least_needed(ablation, args.heads, args.order)
    write_pruned(folder, whole.recorder, heads, args.output)
    smaller = ModelRequest(str(args.output), Settings(), ModelOptions())
    left = load_aligner(replace(common, models=replace(common.models, forward=smaller)))
    checkpoints = {
        "whole": (folder.checkpoint, ablation),
        "pruned": (args.output / "checkpoint.pt", Ablation(left, pairs)),
    }
    sizes = {
        name: Size(path.stat().st_size, len(all_heads(measured.blocks)), loss_of(measured))
        for name, (path, measured) in checkpoints.items()
    }
    parts: Parts = {
        "model": whole.recorder.name,
        "text": os.path.basename(name_shown(args.source)),
        "n": len(pairs),
        "order": args.order,
        "pruned": left.recorder.name,
    }
    return pruning(heads, sizes), parts
