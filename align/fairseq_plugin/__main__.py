"""Prints the folder to give to `--user-dir`."""

from align.fairseq_plugin import FOLDER

print(FOLDER)
