"""Load a model folder into transformers' own modules.

transformers is imported here only, by others through `import_transformers`. It receives settings that were
picked by name and weights that were read by `align.models.huggingface.files`: it opens no file of the folder, and looks
for no code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from align.core.errors import ModelError, one_line
from align.core.types import Dtype
from align.models.folder import ModelFolder
from align.models.huggingface.config import USUAL_POSITIONS, Config, read_config, unlearned_positions
from align.models.huggingface.families import FAMILIES
from align.models.huggingface.files import read_model_weights

CLASSES = {
    "bart": ("BartConfig", "BartForConditionalGeneration"),
    "fsmt": ("FSMTConfig", "FSMTForConditionalGeneration"),
    "m2m_100": ("M2M100Config", "M2M100ForConditionalGeneration"),
    "marian": ("MarianConfig", "MarianMTModel"),
    "mbart": ("MBartConfig", "MBartForConditionalGeneration"),
    "mt5": ("MT5Config", "MT5ForConditionalGeneration"),
    "pegasus": ("PegasusConfig", "PegasusForConditionalGeneration"),
    "t5": ("T5Config", "T5ForConditionalGeneration"),
    "umt5": ("UMT5Config", "UMT5ForConditionalGeneration"),
}
"""transformers' classes of settings and model for each `model_type`."""

VOCABULARIES = ("vocab_size", "decoder_vocab_size", "src_vocab_size", "tgt_vocab_size")
SIZES = (
    "d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads",
    "encoder_ffn_dim", "decoder_ffn_dim", "d_kv", "d_ff", "num_layers", "num_decoder_layers", "num_heads",
    "relative_attention_num_buckets", "relative_attention_max_distance",
)  # fmt: skip
SWITCHES = ("scale_embedding", "share_encoder_decoder_embeddings", "tie_word_embeddings", "scale_decoder_outputs")
WORDS = ("activation_function", "feed_forward_proj")
IDS = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")

COMPUTED = re.compile(r"(model\.)?(en|de)coder\.embed_positions\.\w+")
"""Weights that may be missing from a file: positions that are computed."""

INSTALL = "pip install 'transformers>=5'"


def load_own_model(folder: ModelFolder, device: str = "cpu", dtype: Dtype = "float32") -> Any:
    """Load a folder into transformers' own modules.

    Args:
        folder: folder of a model that a recorder was loaded from, which has checked most of the files.
        dtype: precision: "bfloat16", or anything else for float32.

    Returns:
        The module; `config.max_position_embeddings` is the maximum number of pieces on either side.
    """
    hf = import_transformers("analysing Hugging Face models")
    config = read_config(folder.root / "config.json")
    learned = FAMILIES[config.kind].positions == "learned"
    settings_class, module_class = (getattr(hf, name) for name in CLASSES[config.kind])
    weights = read_model_weights(folder)
    rows = max(weight.shape[0] for weight in weights.values() if weight.dim() == 2)
    settings = _settings(config, learned, rows)
    if folder.adapter is not None and "vocab_size" in settings:  # an adapter may have added pieces
        settings["vocab_size"] = max(len(weights[name]) for name in weights if name.endswith("shared.weight"))
    kind = torch.bfloat16 if dtype == "bfloat16" else torch.float32
    try:
        with silent(hf.logging):
            model, info = module_class.from_pretrained(
                None, config=settings_class(**settings), state_dict=weights, dtype=kind, output_loading_info=True
            )
    except Exception as error:  # unusual settings make transformers raise any exception
        if isinstance(error, MemoryError):
            raise
        raise ModelError(f"transformers cannot build this model: {one_line(error)}", file=str(folder.root)) from None
    missing = sorted(name for name in info["missing_keys"] if learned or not COMPUTED.fullmatch(name))
    if missing:
        raise ModelError(f"it has no {missing[0]}, which its module needs", file=str(folder.checkpoint))
    return model.eval().requires_grad_(False).to(device)


def import_transformers(purpose: str) -> Any:
    """Import and return transformers."""
    try:
        import transformers
    except ModuleNotFoundError as error:
        message = f"{error.name} is not installed, which {purpose} needs: {INSTALL}"
        raise ModuleNotFoundError(message, name=error.name) from None
    if int(transformers.__version__.partition(".")[0]) < 5:
        message = f"transformers {transformers.__version__} is installed; {purpose} needs 5 or later: {INSTALL}"
        raise ModuleNotFoundError(message, name="transformers")
    return transformers


def _settings(config: Config, learned: bool, rows: int) -> dict[str, Any]:
    """Return the settings for transformers: numbers, switches and words that describe the model's arithmetic.

    A vocabulary of more than `rows` pieces is an error: transformers would allocate any number if a weight is missing.
    """

    def switch(name: str) -> bool:
        return config.switch(name, False)

    def word(name: str) -> str:
        return config.word(name, "")

    readers: list[tuple[tuple[str, ...], Callable[[str], Any]]] = [
        (VOCABULARIES, partial(config.size, most=rows)),
        (SIZES, config.size),
        (SWITCHES, switch),
        (WORDS, word),
        (IDS, config.id),
    ]
    settings = {name: read(name) for names, read in readers for name in names if config.has(name)}
    positions = config.size("max_position_embeddings", USUAL_POSITIONS)
    return {**settings, "max_position_embeddings": positions if learned else unlearned_positions(config)}


@contextmanager
def silent(logging: Any) -> Iterator[None]:
    """Suppress transformers' progress bars and its tables of loaded weights."""
    bars, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
