"""Command lines: the only code that prints or exits."""

from align.cli.signals import start_quietly

start_quietly()
