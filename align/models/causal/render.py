"""Render a chat template: a program in a folder of weights, which runs in a sandbox and in a process with limits."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

SECONDS, MEMORY, MOST_CHARACTERS = 5, 1 << 29, 1 << 20
"""Limits of rendering: seconds of computing, bytes of memory, and characters of a prompt."""


def render(template: str, variables: Mapping[str, Any], file: str) -> str:
    """Return the text of a template of Jinja.

    Args:
        variables: values of its names, of types that JSON has.
        file: where the template comes from, for messages.

    Raises:
        ModelError: the template is damaged, refuses its input, or exceeds the limits.
    """
    from align.core.errors import ModelError, one_line  # the process that renders does without

    request = json.dumps({"path": sys.path, "template": template, "variables": variables})
    try:
        process = subprocess.run(
            [sys.executable, "-I", __file__], input=request.encode(), capture_output=True, timeout=3 * SECONDS
        )
        reply = json.loads(process.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        reply = {"error": f"it needs more than {SECONDS} seconds or {MEMORY >> 20:,} MiB"}
    if "missing" in reply:
        raise ModuleNotFoundError("chat templates need jinja2: pip install jinja2", name="jinja2")
    if "error" in reply:
        raise ModelError(f"its chat template cannot be rendered: {one_line(reply['error'])}", file=file)
    text: str = reply["text"]
    return text


def _limit() -> None:
    """Limit the time and memory of this process, where the system can."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def _reply(request: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of a template, or the reason why there is none."""
    try:
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ModuleNotFoundError:
        return {"missing": "jinja2"}
    _limit()

    def refuse(message: object) -> None:
        raise TemplateError(str(message))

    # the settings of transformers, without the date of today, by which links would differ from day to day
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = refuse
    environment.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
    try:
        text = environment.from_string(request["template"]).render(**request["variables"])
    except MemoryError:
        return {"error": "it needs too much memory"}
    except Exception as error:
        return {"error": str(error)[:1000] or type(error).__name__}
    return {"text": text} if len(text) <= MOST_CHARACTERS else {"error": f"more than {MOST_CHARACTERS:,} characters"}


if __name__ == "__main__":
    content = json.load(sys.stdin)
    sys.path[:] = content["path"]
    json.dump(_reply(content), sys.stdout)
