"""Decoder-only language models that translate: configuration, forced pass, templates of prompts, and translation."""
