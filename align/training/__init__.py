"""Training of a translation model from a bitext to a model folder, as `extract-align train` does: one step per file."""
