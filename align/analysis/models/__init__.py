"""Models of any kind as what questions are asked of; and their heads, masked."""
