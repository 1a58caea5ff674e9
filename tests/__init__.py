"""Tests. Threads of torch sleep while they wait, as in programs, or they would take the processor from other tests."""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # before torch is imported
