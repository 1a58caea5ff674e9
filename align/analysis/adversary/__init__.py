"""`extract-align analyse adversary` and `adversary-translation`."""
