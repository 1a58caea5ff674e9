"""`analyse-attention keywords`."""
