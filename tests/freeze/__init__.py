"""What the program did and does: the same commands with two source trees, and how their results differ."""
