"""Draw links: in the terminal, in a notebook, as a page and as figures."""
