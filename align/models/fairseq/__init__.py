"""fairseq 0.12.2: read checkpoints without running code from them, record attention, translate."""
