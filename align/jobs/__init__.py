"""Align corpora of any size: files or tables in and out, on one machine or on a cluster."""
