"""Backends: a model in, `CrossAttention` out, nothing else. `base.py` says what one must offer."""
