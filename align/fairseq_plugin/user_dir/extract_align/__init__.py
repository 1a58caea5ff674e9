"""Imported by fairseq under this folder's name; what it registers is a part of `align` itself."""

from align.fairseq_plugin import architectures, criterion, task  # noqa: F401
