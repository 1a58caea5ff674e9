"""Train a small BERT from a text, in the format of transformers, for `analyse-attention -m`."""
