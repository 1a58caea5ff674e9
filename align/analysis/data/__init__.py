"""The files of others that questions are asked with: treebanks, chunks, pronouns, texts with keyphrases."""
