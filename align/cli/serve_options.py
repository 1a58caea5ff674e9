"""The command line of `extract-align serve`: its options, which of them go together, and what they ask for."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from align.cli.extract_options import (
    REVERSE_IDLE,
    add_direction_options,
    add_threshold_options,
    takes_threshold,
)
from align.cli.method_options import requested_settings
from align.cli.models import Asked, requested_models
from align.cli.options import (
    MODEL_IDLE,
    add_model_options,
    add_quiet_option,
    add_speed_options,
    new_parser,
    whole_number,
)
from align.cli.parser import Parser
from align.core.batching import BUFFER
from align.core.settings import THRESHOLD
from align.core.symmetrize import SOFT
from align.service.limits import Limits

PROGRAM = "extract-align serve"

EXAMPLES = """examples:
  extract-align serve                                    German to English, at http://127.0.0.1:8000
  extract-align serve -m de-en --reverse-model en-de     both directions, symmetrised
  extract-align serve --port 8017 --threads 2            another port, and two CPU threads
  extract-align serve --host 0.0.0.0 --token-file token    for other machines, which must name the token

POST /align and /transfer; GET /health, /metrics and /openapi.json.
There is no first buffer: --layer auto and --head auto are what the model's model.toml says.
"""

DEFAULT = Limits()
MOST_PAIRS = 2**31 - 1


@dataclass(frozen=True)
class Options(Asked):
    """What `extract-align serve` is asked for.

    Attributes:
        host: the name or address to listen at.
        port: likewise; 0 for one that the system chooses.
        token_file: the file with the token that requests must name; None where anyone may ask.
        limits: of requests.
    """

    host: str
    port: int
    token_file: str | None
    limits: Limits


def build_parser() -> Parser:
    """Return the parser with all options, in groups."""
    parser = new_parser(
        PROGRAM, "Answers over HTTP: links of sentence pairs, and tags put into translations.", EXAMPLES
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
    add_model_options(parser)
    add_threshold_options(parser)
    add_direction_options(parser)
    add_speed_options(parser, None)
    parser.hide(["print_completion"])  # which would replace that of extract-align
    return parser


def is_local(host: str) -> bool:
    """Tell whether only this machine can reach the address of a host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_options(parser: Parser, arguments: Sequence[str]) -> Options:
    """Read and check the command line."""
    parser.set_defaults(buffer=BUFFER, bad_lines="blank")
    args = parser.parse_command(arguments)
    parser.refuse_idle(args, (MODEL_IDLE, *REVERSE_IDLE))
    if not args.token_file and not is_local(args.host):
        parser.error(f"--host {args.host} lets other machines in, and needs --token-file")
    if args.request_pairs > args.queue_pairs:
        parser.error("--request-pairs is larger than --queue-pairs: such a request would always be refused")
    joined = takes_threshold(parser, args)
    settings, reverse_settings = requested_settings(parser, args, None if joined else args.threshold)
    return Options(
        models=requested_models(args, settings, reverse_settings),
        method=args.symmetrize or SOFT,
        threshold=args.threshold if joined else THRESHOLD,
        search=None,
        quiet=args.quiet,
        host=args.host,
        port=args.port,
        token_file=args.token_file,
        limits=Limits(args.request_pairs, args.queue_pairs, args.timeout),
    )
