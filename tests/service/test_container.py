"""The Containerfile, as far as it can be read without a container engine."""

from __future__ import annotations

import json
import re

from align.cli.serve import build_parser, read_options
from tests.conftest import ROOT

TEXT = (ROOT / "Containerfile").read_text(encoding="utf-8")


def test_it_starts_the_service_for_other_machines_with_a_token() -> None:
    (words,) = re.findall(r"^ENTRYPOINT (.*)$", TEXT, re.MULTILINE)
    program, command, *options = json.loads(words)
    assert (program, command) == ("extract-align", "serve")
    args, _ = read_options(build_parser(), options)
    (port,) = re.findall(r"^EXPOSE (\d+)$", TEXT, re.MULTILINE)
    assert (args.host, args.port, args.token_file) == ("0.0.0.0", int(port), "/run/secrets/token")


def test_it_copies_what_there_is_and_does_not_end_as_root() -> None:
    copied = " ".join(re.findall(r"^COPY (.*) \S+$", TEXT, re.MULTILINE)).split()
    assert {"align", "setup.cfg", "pyproject.toml", "constraints.txt"} <= set(copied)
    assert all((ROOT / name).exists() for name in copied)
    assert re.findall(r"^USER (.*)$", TEXT, re.MULTILINE) == ["align"]
