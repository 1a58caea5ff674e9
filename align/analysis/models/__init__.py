"""Models of all kinds as `Inspected`, and masking of their heads."""
