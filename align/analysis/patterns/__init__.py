"""`analyse-attention patterns`."""
