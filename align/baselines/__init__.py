"""Run the statistical aligners eflomal, fast_align and GIZA++ for comparison."""
