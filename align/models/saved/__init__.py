"""Read untrusted files that torch saved."""
