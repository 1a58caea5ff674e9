"""Fetch models from the Hugging Face hub by name, with its own client, into its own cache."""

from __future__ import annotations

from pathlib import Path

from align.core.errors import ModelError, one_line
from align.models.recognise import CONVERT
from align.models.settings import importing

TEXT = ("*.json", "chat_template.jinja", "merges.txt", "*.spm", "*.model")
"""Patterns of the files that a model needs in addition to its weights."""

WEIGHTS = (("*model*.safetensors",), ("pytorch_model.bin", "pytorch_model-*.bin"))
"""Patterns of weights in search order: the second ones are fetched only if the hub has no file of the first. Other
files, such as `consolidated.safetensors` of Mistral's models, hold the same weights again."""


def fetch_model(name: str) -> Path:
    """Return the folder of the cache that holds a model, and fetch the model if necessary."""
    with importing():
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    hint = f"check the name, OWNER/MODEL, or fetch it where there is a network: hf download {name}"
    if "gguf" in name.lower():
        hint = f"GGUF files are not read: {CONVERT}"
    try:
        for files in WEIGHTS:
            folder = Path(snapshot_download(name, allow_patterns=[*TEXT, *files]))
            if any(path for pattern in files for path in folder.glob(pattern)):
                return folder
    except HFValidationError:
        raise ModelError("no such file or folder, and no name of the Hugging Face hub", file=name) from None
    except HfHubHTTPError as error:
        message = f"the Hugging Face hub has no such model for you ({one_line(error)})"
        raise ModelError(message, file=name) from None
    except OSError as error:
        message = "no such file or folder, not in the Hugging Face cache, and the hub cannot be reached"
        message += f" ({one_line(error.__cause__ or error)})"
        raise ModelError(message, file=name, hint=hint) from None
    patterns = ", ".join(pattern for files in WEIGHTS for pattern in files)
    message = f"no weights ({patterns}), neither in the Hugging Face cache nor from the hub"
    raise ModelError(message, file=name, hint=hint)
