"""Options that print something and exit: citation, bundled models, shell completion."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import align
from align.cli.common import open_output, run
from align.cli.parser import Parser
from align.models.folder import BUNDLED, find_model
from align.models.model_toml import ModelOptions

CITATION = f"""\
@inproceedings{{kobayashi-etal-2020-attention,
  title = {{Attention is Not Only a Weight: Analyzing Transformers with Vector Norms}},
  author = {{Kobayashi, Goro and Kuribayashi, Tatsuki and Yokoi, Sho and Inui, Kentaro}},
  booktitle = {{Proceedings of the 2020 Conference on Empirical Methods in Natural Language Processing (EMNLP)}},
  year = {{2020}},
  pages = {{7057--7075}},
  doi = {{10.18653/v1/2020.emnlp-main.574}},
}}

@misc{{extract-align,
  title = {{extract-align: word alignments out of a trained Transformer}},
  author = {{{{The extract-align authors}}}},
  note = {{Version {align.__version__}}},
}}
"""
"""The method's paper, and this toolkit, as BibTeX; CITATION.cff says the same for those who have the repository."""

LANGUAGES = {"de": "German", "en": "English"}
"""Names of the bundled models' languages."""

SHELLS = ("bash", "zsh", "tcsh")

_CARD_ROW = re.compile(r"\| (size|trained on) \| (.*) \|")


class Answer(argparse.Action):
    """An option that prints the result of a function of the parser and the option's value, and exits."""

    def __init__(self, *args: Any, answer: Callable[[argparse.ArgumentParser, Any], str], **named: Any) -> None:
        super().__init__(*args, **named)
        self._answer = answer

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: str | None = None) -> None:
        """Print the result and exit."""

        def answer() -> None:
            with open_output(None) as out:
                out.write(self._answer(parser, values).encode())

        sys.exit(run(parser.prog, answer))


def add_answers(parser: argparse.ArgumentParser) -> None:
    """Add the options that every program has."""
    parser.add_argument(
        "--cite",
        action=Answer,
        nargs=0,
        answer=lambda *_: CITATION,
        help="print BibTeX of the method and of this toolkit",
    )
    parser.add_argument(
        "--print-completion",
        action=Answer,
        answer=complete,
        choices=SHELLS,
        metavar="SHELL",
        help=f"print what completes this command in a shell: {', '.join(SHELLS)}",
    )


def add_list_models(group: Any) -> None:
    """Add `--list-models`."""
    group.add_argument(
        "--list-models",
        action=Answer,
        nargs=0,
        answer=lambda *_: list_models(),
        help="print the bundled models and their folders",
    )


def bundled_models() -> list[str]:
    """Return the names of the bundled models."""
    return sorted(path.parent.name for path in BUNDLED.glob("*/model.toml"))


def direction(source: str, target: str) -> str:
    """Return two languages by name where names are known: "German to English"."""
    return " to ".join(LANGUAGES.get(language, language) for language in (source, target))


def list_models() -> str:
    """Return a paragraph for each bundled model: name, direction, rows of its card, and folder."""
    paragraphs = []
    for name in bundled_models():
        folder = find_model(name, ModelOptions())
        lines = [f"{name}  {direction(folder.options.source_lang or '', folder.options.target_lang or '')}"]
        card = (folder.root / "README.md").read_text(encoding="utf-8")
        lines += [f"  {row}: {text}" for row, text in _CARD_ROW.findall(card)]
        paragraphs.append("\n".join((*lines, f"  {folder.root}", "")))
    return "\n".join(paragraphs)


def complete(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return a script that completes a program's options, their values, files and folders."""
    import shtab

    assert isinstance(parser, Parser)
    others = list(parser.others)
    for action in [action for other in others for action in other._actions]:
        if action.option_strings and not {*action.option_strings} & {*parser._option_string_actions}:
            parser._add_action(action)
    commands = [word for other in others for word in other.prog.split()[1:] if not word.startswith("-")]
    kinds = {"FILE": shtab.FILE, "DIR": shtab.DIRECTORY, "PREFIX": shtab.FILE}
    kinds["MODEL"] = words_or_files("model", "bundled model", bundled_models())
    kinds["first"] = words_or_files("first", "command", commands, "$COMP_CWORD == 1", "CURRENT == 2")
    for action in parser._actions:
        action.nargs = getattr(action, "save_nargs", action.nargs)  # which parse_intermixed_args puts aside
        if action.option_strings and action.nargs in ("*", "+"):
            action.nargs = None  # behind which further files and options are offered, and not files alone
        kind = str(action.metavar) if action.option_strings else "first" if commands else "FILE"
        if kind in kinds and not action.choices:
            action.complete = kinds[kind]  # type: ignore[attr-defined]
    return f"{shtab.complete(parser, shell)}\n"


def words_or_files(name: str, what: str, words: Sequence[str], bash: str = "1", zsh: str = "1") -> dict[str, Any]:
    """Return shtab's description of an argument that is one of some words, or a file.

    Args:
        name: part of the name of the shell function.
        what: kind of the words, for the shell's help.
        words: words to offer.
        bash: condition for offering them, in bash arithmetic.
        zsh: condition for offering them, in zsh arithmetic.
    """
    function, those = f"_extract_align_{name}_or_file", " ".join(words)
    in_zsh = f"if (( {zsh} )); then _alternative 'words:{what}:({those})' 'files:file:_files'; else _files; fi"
    preamble = {
        "bash": f'{function}() {{ (( {bash} )) && compgen -W "{those}" -- "$1"; compgen -f -- "$1"; }}',
        "zsh": f"{function}() {{ {in_zsh} }}",
    }
    return {"bash": function, "zsh": function, "tcsh": "f", "preamble": preamble}
