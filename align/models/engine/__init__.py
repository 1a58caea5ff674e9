"""Run an encoder-decoder Transformer without padding, up to the last layer whose attention is needed."""
