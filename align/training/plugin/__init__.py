"""What fairseq loads with `--user-dir`: architectures, a fast criterion, and a translation task that aligns words.

`python -m align.training.plugin` prints the folder.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = str(Path(__file__).resolve().parent / "user_dir" / "extract_align")
"""fairseq puts the folder above this one first on the module path, so there is nothing else in it."""
