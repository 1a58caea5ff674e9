"""`extract-align analyse keywords`."""
