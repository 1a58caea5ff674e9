"""Text: lines to pairs of words, words to a model's pieces, and pieces back to text."""
