"""Serve links and tags over HTTP: requests share batches of one model."""
