"""Files, processes and signals: read text, write results whole, run workers."""
