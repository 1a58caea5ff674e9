"""`extract-align analyse ablate` and `prune`."""
