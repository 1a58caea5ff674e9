"""Encoder-decoder models in the format of Hugging Face's transformers, which need not be installed to run them."""
