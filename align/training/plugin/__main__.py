"""Prints the folder to give to `--user-dir`."""

from align.training.plugin import FOLDER

print(FOLDER)
