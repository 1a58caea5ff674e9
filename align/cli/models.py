"""`extract-align models`: list the bundled models."""

from __future__ import annotations

import re
from collections.abc import Sequence

from align.cli import describe
from align.cli.common import direction, open_output, run
from align.cli.options import new_parser
from align.cli.parser import Parser
from align.models.defaults import ENCODER
from align.models.folder import bundled_models, find_model
from align.models.model_toml import ModelOptions

PROGRAM = "extract-align models"

_CARD_ROW = re.compile(r"\| (use|size|trained on) \| (.*) \|")


def build_parser() -> Parser:
    """Return the parser of `models`, whose help names `models describe`, too."""
    parser = new_parser(PROGRAM, "List the bundled models, or describe a model.", describe.EXAMPLES)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    command = describe.build_parser()
    commands.add_parser("describe", parents=[command], add_help=False, help=describe.SUMMARY, prog=command.prog)
    return parser


def list_models() -> None:
    """Print a paragraph for each bundled model, with rows of its card, and one for the encoder that a package has."""
    paragraphs = []
    for name in bundled_models():
        folder = find_model(name, ModelOptions())
        lines = [f"{name}  {direction(folder.options.source_lang or '', folder.options.target_lang or '')}"]
        card = (folder.root / "README.md").read_text(encoding="utf-8")
        lines += [f"  {row}: {text}" for row, text in _CARD_ROW.findall(card)]
        paragraphs.append("\n".join((*lines, f"  {folder.root}", "")))
    paragraphs.append(f"{ENCODER}  any language pair\n  use: aligns; pip install '.[multilingual]' (not on Windows)\n")
    with open_output(None) as out:
        out.write("\n".join(paragraphs).encode())


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `extract-align models` without `describe`."""
    build_parser().parse_args(arguments)
    return run(PROGRAM, list_models)
