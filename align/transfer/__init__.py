"""Bring tags, placeholders and labels from a source text to its translation by links."""
