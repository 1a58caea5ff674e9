"""Encoder-decoder models of Hugging Face's transformers, which need not be installed to run them."""
