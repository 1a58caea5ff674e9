"""Gold links, error rates, sweeps over layers and heads, and the tables of results."""
