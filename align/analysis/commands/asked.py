"""The models that `analyse-attention` asks: loading them, and what becomes of a text that they are asked of."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from align.analysis.commands.common import PROGRAM, Common, Texts
from align.cli.common import say
from align.cli.models import MODEL_OPTIONS, load_models
from align.core.errors import Argument, KindError, ModelError, Remedy, plural
from align.core.types import Pair, Part, TextWarning
from align.io.process import keep_freed_memory
from align.io.reader import open_text
from align.view.findings import Finding

if TYPE_CHECKING:
    from align.analysis.maps import Inspected, Layered, Reading
    from align.core.aligner import Aligner


class Counted:
    """A model that counts what it leaves out; see `align.analysis.maps.Inspected`.

    Args:
        model: the model.

    Attributes:
        name: of the model.
        shape: likewise.
        left_out: pairs of which nothing was read: blank ones, or too long.
        too_long: those of them that are not blank.
    """

    def __init__(self, model: Inspected) -> None:
        self._model = model
        self.name, self.shape = model.name, model.shape
        self.left_out = self.too_long = 0

    def read(self, pairs: Iterable[Pair], parts: Collection[Part]) -> Iterator[Reading]:
        """The attention to each pair."""
        for reading in self._model.read(pairs, parts):
            if not reading.maps:
                words = reading.pair.source and (reading.pair.target or set(parts) == {"encoder"})
                self.left_out += 1
                self.too_long += bool(words)
            yield reading


def ask(
    common: Common, texts: Texts, question: Callable[[Inspected, Iterator[Pair], list[Part]], Finding]
) -> tuple[Finding, dict[str, str | int | None]]:
    """Ask something of a text, and warn of lines that are too long.

    Args:
        common: how.
        texts: the text.
        question: what to find out of a model, of pairs, and of parts of the model.

    Returns:
        The answer, and what the signature says of model and text: how many lines were looked at.
    """
    model = Counted(load_inspected(common))
    with open_text(texts.input) as text:
        finding = question(model, islice(text, texts.lines), texts.parts_of(model))
        if model.too_long:
            message = f"too long for the model, and left out: {plural(model.too_long, 'line')}"
            warnings.warn(message, TextWarning, stacklevel=2)
        return finding, {"model": model.name, "n": text.lines - model.left_out}


def load_inspected(common: Common) -> Layered:
    """As `load_aligner`; an encoder like BERT, where the model is a folder of one."""
    if folder := _encoder_folder(common):
        keep_freed_memory()
        return _load_encoder(folder, common)
    try:
        aligner = load_aligner(common)
    except KindError as error:
        from align.analysis.models.pretrained import KINDS

        remedy = Remedy("attention is read off these: " + ", ".join(sorted({*error.known, *KINDS})))
        raise ModelError(error.what, file=error.file, remedy=remedy) from None
    from align.analysis.models.translation import TranslationModel

    recorder: Any = aligner.forward.recorder  # of a backend, and so open
    return TranslationModel(recorder)


def load_aligner(common: Common, whole: bool = True) -> Aligner:
    """Load the model, which has to be a translation model, and say which it is.

    Args:
        common: says which.
        whole: whether no head may have been pruned from it.

    Raises:
        ModelError: it is an encoder alone, or heads have been pruned from it.
    """
    keep_freed_memory()
    if folder := _encoder_folder(common):
        raise ModelError("an encoder alone: this command needs a translation model", file=str(folder))
    (aligner,) = load_models(PROGRAM, common.models, common.quiet)
    from align.analysis.models.masking import is_pruned

    recorder: Any = aligner.forward.recorder  # of a backend, and so open
    if whole and is_pruned(recorder.transformer):
        what = "heads have been pruned from this model: questions about attention need all of them"
        raise ModelError(what, file=common.models.forward.name)
    return aligner


def _encoder_folder(common: Common) -> Path | None:
    """The model's folder, if a BERT-like encoder is in it."""
    if not (folder := Path(common.models.forward.name)).is_dir():
        return None
    from align.analysis.models.pretrained import is_encoder

    return folder if is_encoder(folder) else None


def _load_encoder(folder: Path, common: Common) -> Layered:
    """A BERT-like encoder, which none of the options of translation models is for.

    Raises:
        ModelError: one of them is given.
    """
    import torch

    from align.analysis.models.encoder import load_encoder
    from align.models.load import pick_device

    if given := next(
        (name for name in MODEL_OPTIONS if getattr(common.models.forward.options, name) is not None), None
    ):
        remedy = Remedy("leave {} out", (Argument(given),))
        raise ModelError("an encoder alone, whose tokenizer says all of its text", file=str(folder), remedy=remedy)
    if common.models.threads:
        torch.set_num_threads(common.models.threads)
    device = pick_device(common.models.device)
    model = load_encoder(folder, device)
    if not common.quiet:
        threads = f" ({plural(torch.get_num_threads(), 'thread')})" if device == "cpu" else ""
        say(f"{PROGRAM}: {model.name} on {device}{threads}")
    return model
