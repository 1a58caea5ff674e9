"""`extract-align serve`: links and tags over HTTP."""

from __future__ import annotations

import argparse
import gc
import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from align.cli.args import (
    ALIGNING_DEFAULT,
    BATCH_ADVICE,
    add_beam_option,
    add_direction_options,
    add_model_options,
    add_quiet_option,
    add_speed_options,
    add_threshold_options,
    new_parser,
    options_of,
    whole_number,
)
from align.cli.common import run, say, show_warnings
from align.cli.loading import Asked, describe_choices, load_aligner, read_asked
from align.cli.parser import Parser
from align.core.errors import DataError
from align.core.stream import BUFFER
from align.core.types import Search, TextWarning
from align.io.process import keep_freed_memory
from align.io.signature import sign
from align.models.defaults import ALIGNING_MODEL, DEFAULT_MODEL
from align.service.limits import Limits

if TYPE_CHECKING:
    from align.core.aligner import Aligner

PROGRAM = "extract-align serve"

EXAMPLES = """examples:
  extract-align serve   German to English, at http://127.0.0.1:8000
  extract-align serve -m de-en --reverse-model en-de   both directions, symmetrised
  extract-align serve --port 8017 --threads 2   another port, and two CPU threads
  extract-align serve --host 0.0.0.0 --token-file token   for other machines, which must name the token
  extract-align serve --allow-origin http://localhost:3000   for the pages of a site, in the browser

POST /align, /transfer and /translate; GET /, /health, /metrics and /openapi.json.
--layer auto and --head auto are what the model's model.toml says, or else a third of the depth.
"""

DEFAULT = Limits()
MOST_PAIRS = 2**31 - 1


@dataclass(frozen=True)
class Options(Asked):
    """What `extract-align serve` is asked for.

    Attributes:
        port: number of the port; 0 for one that the system chooses.
        token_file: the file with the token that requests must name; None where anyone may ask.
        allow_origin: sites whose pages may read answers.
        beam: width of the search for translations.
    """

    host: str
    port: int
    token_file: str | None
    allow_origin: Sequence[str]
    beam: int
    limits: Limits


def build_parser() -> Parser:
    """Return the parser with all options, in groups."""
    parser = new_parser(
        PROGRAM,
        "Answers over HTTP: links of sentence pairs, translations, and tags put into translations.",
        EXAMPLES,
        ("model", "reverse_model", "port", "token_file", "threads"),
    )
    add_quiet_option(parser)
    group = parser.add_argument_group("service")
    group.add_argument(
        "--host", default="127.0.0.1", help="name or address to listen at; if not this machine's own, with --token-file"
    )
    group.add_argument(
        "--port", type=whole_number(0, 65_535), default=8000, metavar="N", help="0: one that the system chooses"
    )
    group.add_argument(
        "--token-file",
        metavar="FILE",
        help="its one line is what requests must name, as `Authorization: Bearer TOKEN`; only /health needs none",
    )
    group.add_argument(
        "--allow-origin",
        action="append",
        type=origin,
        default=[],
        metavar="URL",
        help="a site whose pages may ask from a browser, as http://localhost:3000; may be given several times",
    )
    group.add_argument(
        "--timeout",
        type=whole_number(1, 3600),
        default=round(DEFAULT.timeout),
        metavar="N",
        help="seconds for a request's body to arrive, for an idle connection, and at SIGTERM or Ctrl-C for requests in "
        "work; at a second signal the service ends at once",
    )
    group.add_argument(
        "--request-pairs",
        type=whole_number(1, MOST_PAIRS),
        default=DEFAULT.request_pairs,
        metavar="N",
        help="the most pairs in a request; more is answered with status 413",
    )
    group.add_argument(
        "--queue-pairs",
        type=whole_number(1, MOST_PAIRS),
        default=DEFAULT.queue_pairs,
        metavar="N",
        help="the most pairs of all requests that wait for links; more is answered with status 429",
    )
    add_beam_option(group)
    add_model_options(parser, default=ALIGNING_DEFAULT)
    add_threshold_options(parser)
    add_direction_options(parser)
    add_speed_options(parser, None)
    return parser


ORIGIN = re.compile(r"https?://[a-z0-9.-]+(?::[0-9]{1,5})?|https?://\[[0-9a-f:.]+\](?::[0-9]{1,5})?")


def origin(value: str) -> str:
    """Return the origin of a web page, as browsers write it."""
    text = value.lower().removesuffix("/")
    if not ORIGIN.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{value!r} is not a scheme and a host, as http://localhost:3000")
    port = ":443" if text.startswith("https") else ":80"
    return text.removesuffix(port)  # which browsers leave out


def is_local(host: str) -> bool:
    """Tell whether only this machine can reach the address of a host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_options(parser: Parser, arguments: Sequence[str] | None) -> Options:
    """Read and check the command line."""
    parser.set_defaults(buffer=BUFFER, bad_lines="blank")
    args = parser.parse_command(arguments)
    if not args.token_file and not is_local(args.host):
        parser.error(f"--host {args.host} lets other machines in, and needs --token-file")
    if args.request_pairs > args.queue_pairs:
        parser.error("--request-pairs is larger than --queue-pairs: a request of that size would always be refused")
    return options_of(
        Options,
        args,
        **vars(read_asked(parser, args)),
        limits=Limits(args.request_pairs, args.queue_pairs, args.timeout),
    )


TOKEN = re.compile(r"[!-~]{16,256}")
"""Visible ASCII, which a header can hold, and enough of it that nobody guesses it."""


def serve(options: Options) -> None:
    """Answer requests until a signal ends the service."""
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
    loaded = load_aligner(PROGRAM, options)
    aligner = loaded.fixed()
    choices = aligner.choices
    only_aligns = options.models.forward.model is None and options.models.forward.default == ALIGNING_MODEL
    load_translator = partial(load_default, options) if only_aligns else None
    work = work_of(aligner, sign(aligner, choices), Search(beam=options.beam), load_translator)

    def tell(what: str) -> None:
        if not options.quiet:
            say(f"{PROGRAM}: {what}")

    if not all(direction.known_choice for direction in loaded.directions):  # there is no text to choose by
        for line in describe_choices(loaded, choices):
            tell(line)
    tell(work.signature)
    gc.freeze()  # the collector need not look through the model's modules again with every large body
    app, address = build_app(work, options.limits, token, options.allow_origin), address_of(listener)
    answer(app, listener, round(options.limits.timeout), lambda: tell(address))
    tell("stopped")


def load_default(options: Options) -> Aligner:
    """Load the bundled model that translates, in place of the default that only aligns."""
    forward = replace(options.models.forward, default=DEFAULT_MODEL, reason="/translate")
    return load_aligner(PROGRAM, replace(options, models=replace(options.models, forward=forward))).fixed()


def read_token(name: str) -> str:
    """The token that a file holds."""
    with open(name, "rb") as file:
        token = file.read(1024).decode("latin-1").strip("\r\n")
    if not TOKEN.fullmatch(token):
        hint = "for example what `openssl rand -hex 32` prints"
        raise DataError("no token: one line of 16 to 256 visible ASCII characters", file=name, hint=hint)
    return token


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `extract-align serve`."""
    parser = build_parser()
    options = read_options(parser, arguments)
    show_warnings(PROGRAM, TextWarning)
    return run(PROGRAM, lambda: serve(options), BATCH_ADVICE)
