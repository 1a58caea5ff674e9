"""Trains a small BERT on a text, in the format of transformers, for `extract-align analyse -m`."""
