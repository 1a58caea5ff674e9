"""Keep what malloc has: on some machines asking the kernel for it anew costs more than the arithmetic."""

from __future__ import annotations

import ctypes


def keep_freed_memory() -> None:
    """Tell glibc to keep big freed blocks: batches of one size after the other need the same ones again.

    Given back to the kernel and asked for anew they cost page faults, several times the arithmetic on some
    virtual machines. Elsewhere than on glibc nothing happens.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(-3, 32 << 20)  # M_MMAP_THRESHOLD: the highest that glibc takes
    mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD
