"""Alignments over HTTP."""
