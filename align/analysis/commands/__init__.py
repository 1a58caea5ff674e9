"""The commands of `analyse-attention`: one table of options, and a function for each answer."""
