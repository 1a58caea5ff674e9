"""`extract-align analyse syntax`."""
