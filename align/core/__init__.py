"""Pairs in, links out. Imports only itself, numpy and torch; reads no files and knows no model format.

Reading order: `errors`, `types` and `text`; `scores`, from attention to links of words; `consistency` and `choice`,
layer and head for a text; `aligner` and `stream`, from one batch to a text of any length; `symmetrize` and `formats`,
from links of two directions to lines. `backend` lists what a model must offer.
"""
