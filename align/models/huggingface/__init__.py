"""Run encoder-decoder models of Hugging Face's transformers without installing it."""
