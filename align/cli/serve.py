"""`extract-align serve`: links and tags over HTTP."""

from __future__ import annotations

import argparse
import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from align.cli.args import ALIGNING_DEFAULT, BATCH_ADVICE, EnsembleArgs, MethodArgs, ModelArgs, RunArgs, model_help
from align.cli.common import run, say
from align.cli.loading import Request, describe_choices, load_aligner, read_request
from align.cli.options import add_group, new_parser, option, read_group, whole_number
from align.cli.parser import Parser
from align.core.errors import DataError
from align.core.types import Search
from align.io.process import keep_freed_memory
from align.io.signature import sign
from align.models.defaults import ALIGNING_MODEL, DEFAULT_MODEL

PROGRAM = "extract-align serve"

EXAMPLES = """examples:
  extract-align serve   German to English, at http://127.0.0.1:8000
  extract-align serve -m de-en --reverse-model en-de   both directions, symmetrised
  extract-align serve --port 8017 --threads 2   another port, and two CPU threads
  extract-align serve --host 0.0.0.0 --token-file token   for other machines, which must name the token
  extract-align serve --allow-origin http://localhost:3000   for the pages of a site, in the browser

POST /align, /transfer and /translate; GET /, /docs, /health, /metrics and /openapi.json.
Layer and head are what the model's model.toml says, or else a third of the depth.
"""

ORIGIN = re.compile(r"https?://[a-z0-9.-]+(?::[0-9]{1,5})?|https?://\[[0-9a-f:.]+\](?::[0-9]{1,5})?")


def origin(value: str) -> str:
    """Return the origin of a web page, as browsers write it."""
    text = value.lower().removesuffix("/")
    if not ORIGIN.fullmatch(text):
        raise argparse.ArgumentTypeError(f"expected a scheme and a host, such as http://localhost:3000; got {value!r}")
    port = ":443" if text.startswith("https") else ":80"
    return text.removesuffix(port)  # which browsers leave out


@dataclass(frozen=True)
class ServiceArgs:
    """Where to listen, who may ask, and how much."""

    TITLE: ClassVar = "service"

    host: str = option(
        default="127.0.0.1", help="name or address to listen on; requires --token-file unless it is a loopback address"
    )
    port: int = option(
        default=8000,
        type=whole_number(0, 65_535),
        metavar="N",
        short="port to listen on",
        help="port to listen on; 0: chosen by the system",
    )
    token_file: str | None = option(
        metavar="FILE",
        short="file with the token of requests",
        help="file with one line: the token that requests must send, as `Authorization: Bearer TOKEN`, except to "
        "/health",
    )
    allow_origin: Sequence[str] = option(
        default=(),
        action="append",
        type=origin,
        metavar="URL",
        help="site whose pages may send requests from a browser, such as http://localhost:3000, or a proxy's own for a "
        "service without a token; may be repeated",
    )
    request_pairs: int = option(
        default=1000,
        type=whole_number(1),
        metavar="N",
        help="maximum number of pairs in a request; a larger one gets status 413",
    )
    queue_pairs: int = option(
        default=4000,
        type=whole_number(1),
        metavar="N",
        help="maximum number of waiting pairs, of all requests; more get status 429",
    )


def build_parser() -> Parser:
    """Return the parser with all options, in groups."""
    description = "Serve links of sentence pairs, translations, and tags put into translations over HTTP."
    parser = new_parser(PROGRAM, description, EXAMPLES, ("model", "reverse_model", "port", "token_file", "threads"))
    add_group(parser, ServiceArgs)
    add_group(parser, ModelArgs, without=("template",), model={"help": model_help(ALIGNING_DEFAULT)})
    add_group(parser, MethodArgs, only=("threshold", "symmetrize"))
    add_group(parser, EnsembleArgs)
    add_group(parser, RunArgs, without=("buffer", "workers"))
    return parser


def read_options(parser: Parser, arguments: Sequence[str] | None) -> tuple[ServiceArgs, Request]:
    """Read and check the command line."""
    args = parser.parse_command(arguments)
    try:
        is_local = args.host == "localhost" or ipaddress.ip_address(args.host).is_loopback
    except ValueError:  # another name
        is_local = False
    if not args.token_file and not is_local:
        parser.error(f"--host {args.host} accepts requests from other machines and requires --token-file")
    if args.request_pairs > args.queue_pairs:
        parser.error("--request-pairs is larger than --queue-pairs: a request of that size would always be refused")
    return read_group(ServiceArgs, args), read_request(parser, args, "blank")


def serve(args: ServiceArgs, request: Request) -> None:
    """Answer requests until a signal ends the service."""
    try:
        from align.service.app import build_app
        from align.service.server import address_of, bind
        from align.service.server import serve as answer
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{error.name} is not installed: pip install '.[serve]'") from None
    from align.core.aligner import Aligner
    from align.models.load import ensemble
    from align.service.work import work_of

    keep_freed_memory()
    token = read_token(args.token_file) if args.token_file else ""
    listener = bind(args.host, args.port)  # before the model, which takes long
    loaded = load_aligner(PROGRAM, request)
    aligner = loaded.fixed()
    choices = aligner.choices
    only_aligns = request.model.model is None and request.default == ALIGNING_MODEL

    def load_translator() -> Aligner:
        """Load the bundled model that translates, in place of the default that only aligns, for the same encoder."""
        model = replace(request.model, adapter=None)  # which is the encoder's
        without = replace(request, model=model, default=DEFAULT_MODEL, reason="/translate", encoder=None)
        translator = load_aligner(PROGRAM, without)
        if aligner.partner:
            translator = ensemble(translator, Aligner(aligner.partner), threshold=aligner.threshold)
        return translator.fixed()

    work = work_of(aligner, sign(aligner, choices), Search(), load_translator if only_aligns else None)

    def tell(what: str) -> None:
        if not request.run.quiet:
            say(f"{PROGRAM}: {what}")

    if not all(direction.known_choice for direction in loaded.directions):  # there is no text to choose by
        for line in describe_choices(loaded, choices):
            tell(line)
    tell(work.signature)
    app = build_app(work, token, args.allow_origin, args.request_pairs, args.queue_pairs)
    answer(app, listener, lambda: tell(address_of(listener)))
    tell("stopped")


TOKEN = re.compile(r"[!-~]{16,256}")
"""Visible ASCII, which a header can hold, and enough of it that nobody guesses it."""


def read_token(name: str) -> str:
    """Read the token from a file."""
    with open(name, "rb") as file:
        token = file.read(1024).decode("latin-1").strip("\r\n")
    if not TOKEN.fullmatch(token):
        hint = "for example what `openssl rand -hex 32` prints"
        raise DataError("expected one line of 16 to 256 visible ASCII characters", file=name, hint=hint)
    return token


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `extract-align serve`."""
    parser = build_parser()
    args, request = read_options(parser, arguments)
    return run(PROGRAM, lambda: serve(args, request), BATCH_ADVICE)
