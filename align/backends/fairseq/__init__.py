"""fairseq 0.12.2 as a backend: checkpoints read without trusting them, attention recorded, translations."""
