"""`analyse-attention syntax`."""
