"""Training of a translation model from a bitext to a model folder, as `scripts/train_model` does: one step per file."""
