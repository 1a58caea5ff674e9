"""fairseq plugin for `--user-dir`: architectures, a fast criterion, and a translation task that aligns words.

`python -m align.training.plugin` prints the folder.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = str(Path(__file__).resolve().parent / "user_dir" / "extract_align")
"""The folder to load; it is alone in its parent folder, which fairseq puts first on the module path."""
