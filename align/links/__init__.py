"""Links of words: formats, files, gold, symmetrisation and error rates. Text and numbers only, no model."""
