"""Analyses of attention inside a model: a file or folder per question, over the `maps` that all `models` provide."""
