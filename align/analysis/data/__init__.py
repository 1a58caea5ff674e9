"""Readers of the data sets for analyses: treebanks, chunks, pronouns, texts with keyphrases."""
