"""An encoder-decoder Transformer run for its attention: no padding in its products, nothing above the wanted layer."""
