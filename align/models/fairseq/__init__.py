"""Read checkpoints of fairseq 0.12.2 without running code from them, record attention, translate."""
