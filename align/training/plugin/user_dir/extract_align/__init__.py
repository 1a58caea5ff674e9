"""Module that fairseq imports under this folder's name; it registers parts of `align`.

It also changes fairseq: see `let_validation_choose_this_task`.
"""

from align.training.plugin import architectures, criterion, task  # noqa: F401

task.let_validation_choose_this_task()
