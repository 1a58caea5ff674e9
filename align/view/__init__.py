"""Alignments for human eyes."""
