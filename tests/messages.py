"""The texts of all messages, in one file: `python -m tests.messages` writes tests/golden/messages.txt.

Tests of errors assert their type and fields; this file alone shows their wording, so that a change of words is a change
of one file, to be read as a whole.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import ROOT

GOLDEN = ROOT / "tests" / "golden" / "messages.txt"

CALLS = {
    *("DataError", "KindError", "LineError", "LinksError", "ModelError", "PairError"),
    *("FileExistsError", "ModuleNotFoundError", "OSError", "RuntimeError", "TypeError", "ValueError"),
    *("ArgumentError", "ArgumentTypeError", "Idle", "error", "say", "say_error", "tell", "warn"),
}
"""Functions and errors that take a message."""


VARIABLES = {
    *("advice", "hint", "message", "problem", "reason", "text", "what", "why"),
    *("HUGGING_FACE", "MERGE", "OTHER_TOOLKIT", "PYTORCH_WEIGHTS", "SAVE_AGAIN"),
}
"""Variables that hold messages."""


def messages(path: Path) -> Iterator[str]:
    """Yield the messages of a module; values are shown as the expressions that compute them."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        sources: list[ast.expr] = []
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            hints = [keyword.value for keyword in node.keywords if keyword.arg == "hint"]
            sources = [*node.args, *hints] if name in CALLS else []
        elif isinstance(node, ast.Assign | ast.AugAssign) and node.value:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            sources = [node.value] if {getattr(target, "id", "") for target in targets} & VARIABLES else []
        for source in sources:
            for text in strings(source):
                if " " in text.strip():
                    yield text


def strings(node: ast.AST) -> Iterator[str]:
    """Yield the strings and f-strings of an expression as they are written."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value.replace("\n", "\\n")
    elif isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else shown(part) for part in node.values)
        yield "".join(map(str, parts)).replace("\n", "\\n")
    else:
        for child in ast.iter_child_nodes(node):
            yield from strings(child)


def shown(part: ast.expr) -> str:
    """Return a value in an f-string as `{expression}`."""
    return "{" + ast.unparse(part.value if isinstance(part, ast.FormattedValue) else part) + "}"


def current() -> str:
    """Return the messages of all modules, sorted, a paragraph for each module."""
    paragraphs = []
    for path in sorted((ROOT / "align").rglob("*.py")):
        if found := sorted(set(messages(path))):
            paragraphs.append("\n".join([f"# {path.relative_to(ROOT)}", *found]))
    return "\n\n".join(paragraphs) + "\n"


if __name__ == "__main__":
    GOLDEN.write_text(current(), encoding="utf-8")
