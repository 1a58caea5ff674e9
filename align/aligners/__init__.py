"""Pairs in, alignments out: what joins the pure functions of `align.attention` with a backend."""
