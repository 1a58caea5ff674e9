"""`analyse-attention adversary` and `adversary-translation`."""
