"""The commands of `analyse-attention`, a file each."""
