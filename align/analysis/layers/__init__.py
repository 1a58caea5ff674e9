"""`extract-align analyse layers`."""
