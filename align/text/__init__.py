"""Text: lines to pairs of words, words to a model's pieces and batches of them, and pieces back to text."""
