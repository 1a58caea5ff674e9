"""`analyse-attention ablate` and `prune`."""
