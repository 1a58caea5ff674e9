"""`extract-align serve`: links and tags over HTTP."""

from __future__ import annotations

import gc
import re
from collections.abc import Sequence

from align.cli.common import run, say, show_warnings
from align.cli.directions import load_aligner, sign
from align.cli.options import BATCH_ADVICE
from align.cli.serve_options import PROGRAM, Options, build_parser, read_options
from align.core.errors import DataError, Remedy
from align.core.types import TextWarning
from align.io.process import keep_freed_memory

TOKEN = re.compile(r"[!-~]{16,256}")
"""Visible ASCII, which a header can hold, and enough of it that nobody guesses it."""


def serve(options: Options) -> None:
    """Answer requests until a signal says that it is enough."""
    try:
        from align.service.app import build_app
        from align.service.server import address_of, bind
        from align.service.server import serve as answer
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{error.name} is not installed: pip install '.[serve]'") from None
    from align.service.work import work_of

    keep_freed_memory()
    token = read_token(options.token_file) if options.token_file else ""
    listener = bind(options.host, options.port)  # before the model, which takes long
    aligner = load_aligner(PROGRAM, options).fixed()
    choices = aligner.choices
    work = work_of(aligner, sign(aligner, options, choices))

    def tell(what: str) -> None:
        if not options.quiet:
            say(f"{PROGRAM}: {what}")

    tell(work.signature)
    gc.freeze()  # the collector need not look through the model's modules again with every large body
    app, address = build_app(work, options.limits, token), address_of(listener)
    answer(app, listener, round(options.limits.timeout), lambda: tell(address))
    tell("stopped")


def read_token(name: str) -> str:
    """The token that a file holds.

    Raises:
        OSError: it cannot be read.
        DataError: it has anything else in it; which is not quoted.
    """
    with open(name, "rb") as file:
        token = file.read(1024).decode("latin-1").strip("\r\n")
    if not TOKEN.fullmatch(token):
        remedy = Remedy("for example what `openssl rand -hex 32` prints")
        raise DataError("no token: one line of 16 to 256 visible ASCII characters", file=name, remedy=remedy)
    return token


def main(arguments: Sequence[str]) -> int:
    """Entry point of `extract-align serve`."""
    parser = build_parser()
    options = read_options(parser, arguments)
    show_warnings(PROGRAM, TextWarning)
    return run(PROGRAM, lambda: serve(options), BATCH_ADVICE)
