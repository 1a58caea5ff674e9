"""Command lines: the only code that prints or exits."""

from align.cli.start import start

start()
