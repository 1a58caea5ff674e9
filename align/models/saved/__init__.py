"""Read what torch saved, without trusting it."""
