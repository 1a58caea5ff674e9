"""Models that attention is read from: `load` is the entry, `engine` the Transformer, a folder each format."""
