"""Files, processes and signals: read text, write results atomically, run workers."""
