"""Models as their frameworks' own modules, which can be trained and whose gradients are known; losses of translations.

fairseq and transformers are imported and patched only here and in the plugin, inside functions. They receive settings
that were picked by name and weights that were read by our own readers: they open no file of a folder, and look for no
code.
"""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from io import StringIO
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from align.core.errors import ModelError, one_line
from align.core.scores import PAD as PAD_WORD
from align.core.scores import collate
from align.core.types import Dtype, Pieces
from align.models.engine.forward import Padded
from align.models.fairseq.checkpoint import load_checkpoint, model_settings, saved_settings
from align.models.folder import ModelFolder
from align.models.huggingface.families import FAMILIES
from align.models.huggingface.files import read_model_weights
from align.models.recorder import ModelRecorder
from align.models.settings import USUAL_POSITIONS, Config, read_config, unlearned_positions

_modules: WeakKeyDictionary[ModelRecorder, Any] = WeakKeyDictionary()
"""Modules by the recorders of the same models."""


def own_model(recorder: ModelRecorder) -> Any:
    """Return the module of a recorder's model; the first call loads it, later ones return the same object."""
    if recorder not in _modules:
        folder, device, dtype = recorder.origin
        if recorder.backend == "fairseq":
            module = load_fairseq(folder, recorder.languages, dtype)
        elif recorder.backend == "huggingface":
            module = load_transformers(folder, dtype)
        else:
            raise ModelError("models of this format have no module that can be trained here", file=recorder.name)
        _modules[recorder] = module.to(device)
    return _modules[recorder]


# fairseq.


def load_fairseq(folder: ModelFolder, languages: Sequence[str], dtype: Dtype = "float32") -> Any:
    """Load a checkpoint into fairseq's own modules."""
    from align.training.compat import install

    install()
    import fairseq  # noqa: F401  (first: if it is missing, nothing else matters)
    from fairseq.data import Dictionary
    from fairseq.models import ARCH_MODEL_REGISTRY, build_model
    from fairseq.models.bart import BARTModel
    from fairseq.models.transformer import TransformerModel
    from fairseq.models.transformer_align import TransformerAlignModel

    state = load_checkpoint(folder.checkpoint)
    settings = model_settings(saved_settings(state), state["model"])
    # other classes evaluate their settings, or open files that the settings name
    if ARCH_MODEL_REGISTRY.get(settings.arch) not in (TransformerModel, BARTModel, TransformerAlignModel):
        message = f"fairseq cannot build this model ({settings.arch}): no Transformer for translation"
        raise ModelError(message, file=str(folder.checkpoint))
    paths = [folder.dictionary(language) for language in languages]
    source, target = [Dictionary.load(StringIO(path.read_text(encoding="utf-8"))) for path in paths]
    with _refused("fairseq", str(folder.checkpoint)):
        model = build_model(settings, Namespace(source_dictionary=source, target_dictionary=target))
        model.load_state_dict(state["model"], strict=True, model_cfg=settings)
    return model.eval().requires_grad_(False).to(torch.bfloat16 if dtype == "bfloat16" else torch.float32)


@contextmanager
def _refused(framework: str, file: str) -> Iterator[None]:
    """Turn the errors of a framework that builds a model, which may be any, into a ModelError."""
    try:
        yield
    except Exception as error:
        if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "memory" in str(error)):
            raise
        raise ModelError(f"{framework} cannot build this model: {one_line(error)}", file=file) from None


# transformers.

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

LAYERS = ("encoder_layers", "decoder_layers", "num_layers", "num_decoder_layers", "num_hidden_layers", "n_layers")
SIZES = (
    "vocab_size", "decoder_vocab_size", "src_vocab_size", "tgt_vocab_size", "type_vocab_size", "embedding_size",
    "d_model", "encoder_attention_heads", "decoder_attention_heads", "encoder_ffn_dim", "decoder_ffn_dim", "d_kv",
    "d_ff", "num_heads", "relative_attention_num_buckets", "hidden_size", "num_attention_heads", "intermediate_size",
    "dim", "n_heads", "hidden_dim",
)  # fmt: skip
SWITCHES = ("scale_embedding", "share_encoder_decoder_embeddings", "tie_word_embeddings", "scale_decoder_outputs")
SHARES = ("layer_norm_eps", "hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout")
ACTIVATIONS = ("hidden_act", "activation", "activation_function")
IDS = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")

COMPUTED = re.compile(r"(model\.)?(en|de)coder\.embed_positions\.\w+")
"""Weights that may be missing from a file: positions that are computed."""

INSTALL = "pip install 'transformers>=5.3'"


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


def load_transformers(folder: ModelFolder, dtype: Dtype = "float32") -> Any:
    """Load a folder into transformers' own modules; `config.max_position_embeddings` limits the pieces on either side.

    The folder is that of a recorder, which has checked most of the files.
    """
    config = read_config(folder.root / "config.json")
    learned = FAMILIES[config.kind].positions == "learned"
    weights = read_model_weights(folder)
    positions = config.size("max_position_embeddings", USUAL_POSITIONS) if learned else unlearned_positions(config)
    settings: dict[str, Any] = {"max_position_embeddings": positions}
    if folder.adapter is not None and config.has("vocab_size"):  # an adapter may have added pieces
        settings["vocab_size"] = max(len(weights[name]) for name in weights if name.endswith("shared.weight"))
    kind = torch.bfloat16 if dtype == "bfloat16" else torch.float32
    model, info = build_module(CLASSES[config.kind], config, weights, settings, str(folder.root), dtype=kind)
    missing = sorted(name for name in info["missing_keys"] if learned or not COMPUTED.fullmatch(name))
    if missing:
        raise ModelError(f"it has no {missing[0]}, which its module needs", file=str(folder.checkpoint))
    return model.eval().requires_grad_(False)


def build_module(
    classes: tuple[str, str],
    config: Config,
    weights: dict[str, Tensor],
    settings: Mapping[str, Any],
    file: str,
    **options: Any,
) -> tuple[Any, Mapping[str, Any]]:
    """Build a module of transformers; return it with the report of missing and unexpected weights.

    Settings of `config` are numbers, switches and words that describe the model's arithmetic, within the sizes of the
    weights: transformers would allocate any size where a weight is missing. `settings` replace those of `config`.

    Args:
        classes: names of the classes of settings and module.
        options: arguments of `from_pretrained`.
    """
    hf = import_transformers("analysing Hugging Face models")
    widest = max((max(weight.shape) for weight in weights.values() if weight.dim()), default=1)
    numbers = {number for name in weights for number in re.findall(r"(?:layers?|block)\.(\d+)\.", name)}
    readers = (
        (LAYERS, partial(config.size, most=len(numbers))),
        (SIZES, partial(config.size, most=widest)),
        (("relative_attention_max_distance",), config.size),
        (SWITCHES, lambda name: config.switch(name, False)),
        (SHARES, config.share),
        (ACTIVATIONS, lambda name: config.one_of(name, hf.activations.ACT2FN)),
        (("feed_forward_proj",), lambda name: config.word(name, "")),
        (IDS, config.id),
    )
    own = {name: read(name) for names, read in readers for name in names if name not in settings and config.has(name)}
    settings_class, module_class = (getattr(hf, name) for name in classes)
    with _refused("transformers", file), silent(hf.logging):
        model, report = module_class.from_pretrained(
            None,
            config=settings_class(**own, **settings),
            state_dict=weights,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # else transformers refuses them without a name
            **options,
        )
    if wrong := sorted(report["mismatched_keys"]):
        raise ModelError(f"{wrong[0][0]} does not have the size that its settings give", file=file)
    return model, report


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


# Losses.


def sentence_losses(recorder: ModelRecorder, batch: Sequence[Pieces]) -> Tensor:
    """Return the cross-entropy of each target with its `</s>`, in nats, summed over its pieces `[B]`.

    The recorder's native module runs with its current weights, and gradients flow if enabled.
    """
    module = own_model(recorder)
    collated = collate(batch, recorder.pad)
    logs = log_probabilities(module, *recorder.padded(collated))
    logs = logs[:, len(recorder.start) - 1 :]  # [B, T+1, V]
    real = (collated.target_words != PAD_WORD).to(logs.device)  # [B, T]
    lengths = real.sum(1, keepdim=True)  # [B, 1]
    ids = torch.nn.functional.pad(collated.target.to(logs.device), (0, 1))  # [B, T+1]
    of_fairseq = hasattr(module, "get_normalized_probs")
    end = module.decoder.dictionary.eos() if of_fairseq else module.config.eos_token_id
    ids = ids.scatter(1, lengths, end)
    counted = torch.arange(ids.shape[1], device=ids.device) <= lengths  # [B, T+1]
    return -(logs.gather(2, ids[..., None])[..., 0].double() * counted).sum(1)


def log_probabilities(module: Any, source: Padded, steps: Padded) -> Tensor:
    """Return the log probabilities of a module of fairseq or transformers at each step `[B, T, V]`."""
    if hasattr(module, "get_normalized_probs"):  # fairseq's
        output = module(source.ids, source.kept.sum(1), steps.ids)
        logs: Tensor = module.get_normalized_probs(output, log_probs=True)
        return logs
    output = module(
        input_ids=source.ids, attention_mask=source.kept.long(), decoder_input_ids=steps.ids, use_cache=False
    )
    logits: Tensor = output.logits
    return logits.log_softmax(-1)
