"""`scripts/train_bert`: a small BERT from a text, in transformers' own format."""
