"""From attention to word scores and links, as pure functions on tensors and arrays."""
