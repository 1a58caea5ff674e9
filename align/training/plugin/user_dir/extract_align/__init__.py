"""Imported by fairseq under this folder's name; what it registers is a part of `align` itself.

This is also where the plugin changes fairseq: see `let_validation_choose_this_task`.
"""

from align.training.plugin import architectures, criterion, task  # noqa: F401

task.let_validation_choose_this_task()
