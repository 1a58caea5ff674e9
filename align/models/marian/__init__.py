"""Read models of Marian: production models of Bergamot and Firefox, and the originals of OPUS-MT."""
