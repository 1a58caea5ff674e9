"""Command lines: the only code that prints or exits."""
