"""Pairs in, links out. Imports only itself, numpy and torch; reads no files and knows no model format.

Reading order: `types`, `settings` and `errors`; `text`, `pieces` and `batching`, from sentences to batches; `norms`,
`scores`, `merging`, `soft` and `consistency`, from attention to the scores of words; `extraction`, `choice`, `aligner`
and `stream`, from one batch to a text of any length; `symmetrize` and `formats`, from links of two directions to lines.
`backend` says what a model must offer.
"""
