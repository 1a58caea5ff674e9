"""An encoder-decoder Transformer that computes attention without padding, up to the layer that is read."""
