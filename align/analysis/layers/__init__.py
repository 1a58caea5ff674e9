"""`analyse-attention layers`."""
