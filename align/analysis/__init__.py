"""What attention does inside a model: a file a question, over `maps` that any model can give."""
