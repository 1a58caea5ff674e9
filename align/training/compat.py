"""Make `import fairseq` work on current Python and torch, and prevent it from evaluating its input as Python.

`install()` adds an import hook, which patches fairseq as it is imported. It changes the process permanently,
so it is called in two places only, before they import fairseq: where its own programs are started
(`align.fairseq_cli`), and where its own model is loaded (`align.analysis.models.native`).

1. Python >= 3.11 refuses mutable dataclass defaults, of which fairseq has many.
2. fairseq 0.12.2's "BetterTransformer" encoder path fails on padded batches with torch >= 2.
3. Its modules call `eval` on settings of models and optimisers, and on lines of text. In all of them that name now
   means `evaluate_literal`, which accepts numbers, strings and lists of them.
4. It reads checkpoints by `torch.load`, which is restricted to the classes in `align.models.saved`.
5. Importing it causes deprecation warnings of torch and Python, which users cannot act on.

Tested with fairseq 0.12.2; fairseq-fixed 0.12.3.1 takes the same path.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib.abc
import importlib.util
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from align.core.errors import shorten

MAX_EVALUATED = 100_000  # maximum characters of an evaluated setting

REQUIREMENTS = (
    "pip install 'hydra-core>=1.3,<1.4' 'omegaconf>=2.3,<2.4' 'bitarray>=2.9' 'regex>=2024.4.16' 'sacrebleu>=2.4' "
    "'packaging>=23.2'"
)

NEEDED = ("hydra", "omegaconf", "bitarray", "regex", "sacrebleu", "packaging")
"""Modules of these requirements."""

INSTALL = f"""fairseq is not installed. These two commands install it:
  {REQUIREMENTS}
  pip install --no-deps fairseq==0.12.2"""


@contextmanager
def _hashable_dataclasses() -> Iterator[None]:
    """Allow instances of fairseq's dataclasses as defaults of other dataclasses, as before Python 3.11."""
    original = dataclasses.dataclass

    def dataclass(cls: type | None = None, /, **options: Any) -> Any:
        def decorate(plain: type) -> Any:
            decorated: Any = original(plain, **options)
            if _is_fairseq(decorated.__module__) and decorated.__hash__ is None:
                decorated.__hash__ = object.__hash__
            return decorated

        return decorate if cls is None else decorate(cls)

    dataclasses.dataclass = dataclass
    try:
        yield
    finally:
        dataclasses.dataclass = original


def evaluate_literal(text: str, *scopes: Any) -> Any:
    """Return the value of a literal, which uses no `scopes`, in place of `eval` in fairseq's modules."""
    if not isinstance(text, str):
        raise TypeError(f"only strings can be evaluated, not {type(text).__name__}")
    if len(text) > MAX_EVALUATED:
        raise ValueError(f"{len(text):,} characters are too many for a setting")
    try:
        return ast.literal_eval(text.strip())
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise ValueError(f"{shorten(text)!r} is not a number, a string, or a list of them") from None


def _mend() -> None:
    """Apply the patches that need an imported fairseq; a second call changes nothing."""
    from fairseq import checkpoint_utils
    from fairseq.modules.transformer_layer import TransformerEncoderLayerBase

    from align.models.saved import only_checkpoint_classes  # imports torch

    for name, module in list(sys.modules.items()):
        if _is_fairseq(name):
            # a module's globals take precedence over built-in names
            module.__dict__["eval"] = evaluate_literal
    load, build = checkpoint_utils.load_checkpoint_to_cpu, TransformerEncoderLayerBase.__init__
    if hasattr(load, "__wrapped__"):
        return

    @functools.wraps(load)
    def load_restricted(*arguments: Any, **named: Any) -> Any:
        with only_checkpoint_classes():
            return load(*arguments, **named)

    @functools.wraps(build)
    def build_without_fast_path(self: Any, *arguments: Any, **named: Any) -> None:
        build(self, *arguments, **named)
        self.can_use_fastpath = False

    checkpoint_utils.load_checkpoint_to_cpu = load_restricted
    TransformerEncoderLayerBase.__init__ = build_without_fast_path


def _is_fairseq(name: str) -> bool:
    return name.partition(".")[0] in ("fairseq", "fairseq_cli")


class _Hook(importlib.abc.MetaPathFinder):
    """Wraps the loading of fairseq's modules."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if not _is_fairseq(name):
            return None
        finders = (finder for finder in sys.meta_path if finder is not self)
        spec = next((spec for finder in finders if (spec := finder.find_spec(name, path, target))), None)
        if spec is None and name == "fairseq":
            raise ModuleNotFoundError(INSTALL, name="fairseq")
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def mended(module: Any) -> None:
            module.__dict__["eval"] = evaluate_literal
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if name != "fairseq":
                    execute(module)
                    return
                handler = logging.NullHandler()  # without any, `basicConfig` sends all logging to stdout
                logging.root.addHandler(handler)
                try:
                    with _hashable_dataclasses():
                        execute(module)
                except ModuleNotFoundError as error:
                    raise _lacks(str(error.name)) from None
                finally:
                    logging.root.removeHandler(handler)
            _mend()

        spec.loader.exec_module = mended  # type: ignore[method-assign]
        return spec


def _lacks(name: str) -> ModuleNotFoundError:
    message = f"fairseq needs {name}, which is not installed. This installs all that it needs:"
    return ModuleNotFoundError(f"{message}\n  {REQUIREMENTS}", name=name)


def check_installed() -> None:
    """Check that fairseq and what it needs are installed for this Python, without importing them."""
    try:
        if not importlib.util.find_spec("fairseq"):
            raise ModuleNotFoundError(INSTALL, name="fairseq")
        if missing := next((name for name in NEEDED if not importlib.util.find_spec(name)), None):
            raise _lacks(missing)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{error}\nThis program runs in {sys.prefix}.", name=error.name) from None


def install() -> None:
    """Patch fairseq, now if it is already imported, else as it is imported; a second call changes nothing."""
    if not any(isinstance(finder, _Hook) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Hook())
    if "fairseq" in sys.modules:  # the hook comes too late for it
        _mend()
