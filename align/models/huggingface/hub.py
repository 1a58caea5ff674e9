"""Models by their names on the Hugging Face hub: fetched by its own client, into its own cache."""

from __future__ import annotations

from pathlib import Path

from align.core.errors import ModelError, Remedy, one_line
from align.models.huggingface.config import lacks

TEXT = ("*.json", "merges.txt", "*.spm", "*.model")
"""What a model needs beside its weights."""

WEIGHTS = (("*.safetensors",), ("pytorch_model.bin", "pytorch_model-*.bin"))
"""Weights, in the order in which they are looked for: the second is fetched only where there is none of the first."""


def fetch_model(name: str) -> Path:
    """The folder of the cache that holds a model, fetched if it is not there.

    Args:
        name: on the hub, such as Helsinki-NLP/opus-mt-de-en.

    Raises:
        ModelError: there is no such model, neither in the cache nor to be fetched, or none of its weights.
        ModuleNotFoundError: the client is not installed.
    """
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    except ModuleNotFoundError as error:
        raise lacks(error) from None
    remedy = Remedy(f"fetch it where there is a network: hf download {name}")
    try:
        for files in WEIGHTS:
            folder = Path(snapshot_download(name, allow_patterns=[*TEXT, *files]))
            if any(path for pattern in files for path in folder.glob(pattern)):
                return folder
    except (LocalEntryNotFoundError, OSError) as error:
        if isinstance(error, HfHubHTTPError):
            what = f"the Hugging Face hub has no such model for you ({one_line(error)})"
            raise ModelError(what, file=name) from None
        what = "no such file or folder, not in the Hugging Face cache, and the hub cannot be reached"
        raise ModelError(what, file=name, remedy=remedy) from None
    except HFValidationError:
        raise ModelError("no such file or folder, and no name of the Hugging Face hub", file=name) from None
    wanted = ", ".join(pattern for files in WEIGHTS for pattern in files)
    what = f"no weights ({wanted}), neither in the Hugging Face cache nor from the hub"
    raise ModelError(what, file=name, remedy=remedy)
