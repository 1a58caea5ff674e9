"""What fairseq loads with `--user-dir`: architectures, a fast criterion, and a translation task that aligns words.

`python -m align.fairseq_plugin` prints the folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = str(Path(__file__).resolve().parent)

if __name__ == "fairseq_plugin":  # fairseq is loading it, with our parent folder in front of the module path
    # There `align/types.py` and its neighbours would hide modules of other packages and of Python itself.
    sys.path[:] = [path for path in sys.path if path != str(Path(FOLDER).parent)]
    from align.fairseq_plugin import architectures, criterion, task  # noqa: F401
