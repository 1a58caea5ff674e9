"""Encoder-decoder attention of any fairseq Transformer checkpoint, through hooks on its own modules."""

from __future__ import annotations

import hashlib
import re
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from align.fairseq_compat import load_checkpoint
from align.recorders.folder import ModelFolder
from align.text import Preprocessor
from align.types import Batch, CrossAttention, Pair, Pieces


class _Recorded(Exception):
    """The last wanted attention has been recorded: what the decoder would still compute is of no use."""


class FairseqRecorder:
    """A fairseq Transformer that shows its encoder-decoder attention; see `Recorder` for the attributes.

    Only the decoder up to the last wanted layer's cross-attention is ever run: no later layer, no vocabulary
    projection.

    Args:
        model: a fairseq encoder-decoder Transformer.
        source: the source side's preprocessing.
        target: the target side's.
        dictionary: either side's, for the ids of its special symbols.
        name: for the signature.
        text: how either side's text is prepared, for messages.

    Attributes:
        model: the same.
        rules: how the (source, target) side's text is prepared.
    """

    def __init__(
        self, model: Any, source: Preprocessor, target: Preprocessor, *, dictionary: Any, name: str, text: str
    ) -> None:
        model.eval()  # which returns nothing where fairseq has made the model ready for its beam search
        self.model = model
        # only now: in training fairseq's LayerDrop leaves some layers out of this list
        self._attentions = [layer.encoder_attn for layer in model.decoder.layers]
        self._source, self._target = source, target
        self.rules = (source.rules, target.rules)
        self.languages = (source.rules.language, target.rules.language)
        self._eos = dictionary.eos()
        self.pad = dictionary.pad()
        self.unk = dictionary.unk()
        self.name = name
        self.text = text
        self.layers = len(self._attentions)
        self.heads = self._attentions[0].num_heads
        self.max_positions = (int(model.encoder.max_positions()), int(model.decoder.max_positions()))
        weight = next(model.parameters())
        self.device, self.dtype = str(weight.device), str(weight.dtype).removeprefix("torch.")

    def encode(self, pair: Pair) -> Pieces:
        """The model's pieces of one pair; `</s>` ends the source."""
        source, source_words = self._source(pair.source)
        target, target_words = self._target(pair.target)
        words = len(pair.source), len(pair.target)
        return Pieces([*source, self._eos], [*source_words, -1], target, target_words, words)

    def record(self, batch: Batch, layers: Sequence[int]) -> Iterator[CrossAttention]:
        """Attention of the given layers (from 1), lowest first; see `Recorder.record`."""
        return iter(self._record(batch, sorted(layers)))

    @torch.no_grad()
    def _record(self, batch: Batch, layers: Sequence[int]) -> list[CrossAttention]:
        source = batch.source.to(self.device)
        # Pads at the end of the target are hidden from all before them by the causal mask. Read as </s> they
        # need no mask of their own, which would cost [B, H, T, T] in each layer.
        target = batch.target.masked_fill(batch.target == self.pad, self._eos)
        steps = torch.nn.functional.pad(target, (1, 0), value=self._eos).to(self.device)  # [B, T+1]
        recorded: list[CrossAttention] = []
        handles = []
        for layer in layers:
            handles += self._hook(layer, layer == layers[-1], recorded)
        try:
            with _one_beam(self._attentions):
                encoded = self.model.encoder(source, src_lengths=(source != self.pad).sum(1))
                self.model.decoder(steps, encoder_out=encoded, features_only=True)
        except _Recorded:
            pass
        finally:
            for handle in handles:
                handle.remove()
        return recorded

    def _hook(self, layer: int, last: bool, recorded: list[CrossAttention]) -> list[Any]:
        """Hook one layer so that a forward pass appends its attention to `recorded`."""
        attention = self._attentions[layer - 1]
        heads = attention.num_heads
        value: list[Tensor] = []

        def ask_for_weights(module: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
            return args, {**kwargs, "need_weights": True, "need_head_weights": True}

        def keep_value(module: Any, args: Any, output: Tensor) -> None:
            value.append(output)  # [S, B, D]

        def keep_all(module: Any, args: Any, output: tuple[Tensor, Tensor]) -> None:
            weights = output[1].transpose(0, 1)  # [B, H, T+1, S]
            flat, size = value.pop(), module.head_dim  # [S, B, D]
            values = flat.view(*flat.shape[:2], heads, size).permute(1, 2, 0, 3)  # [B, H, S, d]
            out_proj = module.out_proj.weight.view(-1, heads, size).permute(1, 2, 0)  # [H, d, D]
            recorded.append(CrossAttention(layer, weights, values, out_proj))
            if last:
                raise _Recorded

        return [
            attention.register_forward_pre_hook(ask_for_weights, with_kwargs=True),
            attention.v_proj.register_forward_hook(keep_value),
            attention.register_forward_hook(keep_all),
        ]


@contextmanager
def _one_beam(attentions: Sequence[Any]) -> Iterator[None]:
    """Let each source stand for itself: a beam search has told BART's attention that it comes once for each beam."""
    beams = [(attention, attention.beam_size) for attention in attentions if hasattr(attention, "beam_size")]
    try:
        for attention, _ in beams:
            attention.beam_size = 1
        yield
    finally:
        for attention, size in beams:
            attention.beam_size = size


def load_fairseq(folder: ModelFolder, device: str = "cpu", dtype: str = "float32") -> FairseqRecorder:
    """Load a fairseq checkpoint with its dictionaries and text processing.

    Args:
        folder: where the files are and what is known about the text.
        device: "cpu", or "cuda" and the like.
        dtype: "float32" or "bfloat16".

    Raises:
        ValueError: a file is missing, damaged or of another model; the message says which and why.
        ModuleNotFoundError: fairseq is not installed.
    """
    state = load_checkpoint(folder.checkpoint)
    config = state.get("cfg") or {}
    args = state.get("args") or config.get("model")
    if not any(".encoder_attn." in key for key in state["model"]):
        raise ValueError(f"{folder.checkpoint}: no encoder-decoder attention in it; is it a language model?")
    task = config.get("task", args)
    trained_on = folder.binarised_languages()
    source_lang = folder.options.source_lang or _read(task, "source_lang") or trained_on[0]
    target_lang = folder.options.target_lang or _read(task, "target_lang") or trained_on[1]
    if not (source_lang and target_lang):
        raise ValueError(f"{folder.checkpoint}: does not say its languages; give --source-lang and --target-lang")
    for language in (source_lang, target_lang):  # they come out of a file and go into paths and onto terminals
        if not re.fullmatch(r"[\w.-]+", str(language)):
            raise ValueError(f"{folder.checkpoint}: {language!r} is not a language code")

    sides = [(source_lang, folder.options.source_subwords), (target_lang, folder.options.target_subwords)]
    rules = [folder.rules(*side) for side in sides]
    if (rules[0].subwords == "none") != (rules[1].subwords == "none"):
        bare = next(rule.language for rule in rules if rule.subwords == "none")
        raise ValueError(f"{folder.root}: subwords for one side, but none for {bare}; name its file with a flag")
    paths = [folder.dictionary(language) for language, _ in sides]
    dictionaries = [_load_dictionary(path) for path in paths]
    for part, path, dictionary in zip(("encoder", "decoder"), paths, dictionaries, strict=True):
        rows = state["model"].get(f"{part}.embed_tokens.weight", torch.empty(0)).shape[0]
        if rows != len(dictionary):
            raise ValueError(
                f"{path}: {len(dictionary):,} entries with fairseq's 4 special ones, but the {part} of "
                f"{folder.checkpoint} was trained with {rows:,}: not this model's dictionary"
            )

    model = _build(args, dictionaries, state["model"], folder.checkpoint)
    subword_files = [rule.subword_file for rule in rules if rule.subword_file is not None]
    spec = [(rule.language, rule.case, rule.tokenizer, rule.subwords) for rule in rules]
    fingerprint = _fingerprint([folder.checkpoint, *paths, *subword_files], repr(spec))
    source, target = (Preprocessor(rule, _index(d)) for rule, d in zip(rules, dictionaries, strict=True))
    return FairseqRecorder(
        model.requires_grad_(False).to(device=device, dtype=getattr(torch, dtype)),
        source,
        target,
        dictionary=dictionaries[0],
        name=f"fairseq:{source_lang}-{target_lang}@{fingerprint}",
        text=", ".join(f"{r.language} ({r.case} case, {r.tokenizer} tokens, {r.subwords} pieces)" for r in rules),
    )


def _read(config: Any, name: str) -> Any:
    """A setting out of a Namespace, a dict or neither."""
    return config.get(name) if isinstance(config, dict) else getattr(config, name, None)


def _load_dictionary(path: Path) -> Any:
    from fairseq.data import Dictionary

    try:
        return Dictionary.load(str(path))
    except Exception as error:  # fairseq raises bare Exception for a wrong encoding
        raise ValueError(f"{path}: not a fairseq dictionary ({str(error).strip()})") from None


def _index(dictionary: Any) -> Any:
    """Piece to id. What looks like a special symbol is a user's word like any other, and unknown."""
    indices, specials, unknown = dictionary.indices, dictionary.nspecial, dictionary.unk()

    def index(piece: str) -> int:
        number: int = indices.get(piece, unknown)
        return number if number >= specials else unknown

    return index


def _build(args: Any, dictionaries: Sequence[Any], weights: dict[str, Tensor], checkpoint: Path) -> Any:
    """The checkpoint's own architecture with its weights in it."""
    from fairseq import models
    from omegaconf import OmegaConf

    settings = args if isinstance(args, dict) else vars(args)
    for name in settings:
        if name.startswith("pretrained") or name.endswith("embed_path"):
            settings[name] = None  # files that training began with; all weights are in the checkpoint
    if isinstance(args, dict):
        args = OmegaConf.create(args)
    task = Namespace(source_dictionary=dictionaries[0], target_dictionary=dictionaries[1])
    try:
        model = models.build_model(args, task)
    except Exception as error:  # whatever an unknown architecture or setting makes fairseq raise
        name = getattr(args, "_name", None) or getattr(args, "arch", None)
        raise ValueError(f"{checkpoint}: fairseq cannot build this model ({name}): {error}") from None
    try:
        model.load_state_dict(weights, strict=True, model_cfg=args)
    except (RuntimeError, KeyError) as error:
        raise ValueError(f"{checkpoint}: weights and configuration do not fit: {error}") from None
    if not all(weight.isfinite().all() for weight in model.parameters()):
        raise ValueError(f"{checkpoint}: some weights are not finite numbers; the training has failed")
    return model


def _fingerprint(files: Iterable[Path], text: str) -> str:
    """Seven hex digits that change when any file or rule does that the links depend on."""
    digest = hashlib.sha256(text.encode())
    for path in files:
        with path.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:7]
