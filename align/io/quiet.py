"""Imports of other packages, without the warnings that those have for their own developers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quietly() -> Iterator[None]:
    """Ignore warnings until the context ends; then the user's own filters hold again. It is for imports only."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
