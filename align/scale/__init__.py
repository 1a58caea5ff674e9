"""Corpora of any size: tables in and out, a file in for a file out, and engines that share the files."""
