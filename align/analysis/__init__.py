"""What attention does inside a model: a file or a folder a question, over `maps` that any of `models` can give."""
