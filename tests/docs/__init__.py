"""The sessions and programs in README and docs/: all are run, and show what comes."""
