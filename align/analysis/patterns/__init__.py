"""`extract-align analyse patterns`."""
