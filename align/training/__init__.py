"""From a bitext to a model folder: what `scripts/train_model` does, one step a file."""
