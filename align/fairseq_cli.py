"""Run the stock fairseq programs on current versions of Python: `python -m align.fairseq_cli train ...`.

fairseq's own scripts import fairseq at once; this one patches it before they do.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from align.training.compat import install

PROGRAMS = ("preprocess", "train", "generate", "interactive", "validate", "score", "eval_lm")


def main() -> None:
    """Run the program that the first argument names with the other arguments."""
    name = sys.argv[1].replace("-", "_") if len(sys.argv) > 1 else ""
    if name not in PROGRAMS:
        help_requested = name in ("__help", "_h")
        usage = f"usage: python -m align.fairseq_cli {{{','.join(PROGRAMS)}}} ..."
        print(usage, file=sys.stdout if help_requested else sys.stderr)
        sys.exit(0 if help_requested else 2)
    install()
    try:
        import fairseq  # noqa: F401
    except ModuleNotFoundError as error:
        sys.exit(str(error))
    import torch

    load = torch.load

    def restricted(*arguments: Any, **named: Any) -> Any:
        """Read data alone, regardless of environment variables and fairseq's own code."""
        return load(*arguments, **{**named, "weights_only": True})

    torch.load = restricted
    sys.argv = [f"fairseq-{name.replace('_', '-')}", *sys.argv[2:]]
    importlib.import_module(f"fairseq_cli.{name}").cli_main()


if __name__ == "__main__":
    main()
