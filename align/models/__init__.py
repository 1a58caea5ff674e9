"""Load models and record their attention: `load` is the entry, `engine` the Transformer; each format has a folder."""
