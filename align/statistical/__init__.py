"""Statistical aligners, to compare with: one function for eflomal, fast_align and GIZA++."""
