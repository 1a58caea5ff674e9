"""Draw links: in the terminal, as a page and as figures."""
