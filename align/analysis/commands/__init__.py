"""The commands of `extract-align analyse`: one table of options, and a function for each answer."""
