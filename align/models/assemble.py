"""Make recorders: what the loaders of all formats share.

A loader reads its files into settings of the engine, weights by the engine's names, and the text processing of both
sides; it builds the Transformer within `fitting`, and leaves the rest to `assemble`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from weakref import WeakValueDictionary

from align.core.errors import ModelError
from align.core.types import Dtype
from align.models.engine.forward import Sinusoids
from align.models.folder import BUNDLED, ModelFolder
from align.models.preprocess import Preprocessor, Segment, TextRules
from align.models.recorder import ModelParts, ModelRecorder, file_digest, fingerprint


def assemble(parts: ModelParts, folder: ModelFolder, device: str, dtype: Dtype) -> ModelRecorder:
    """Return the recorder of a model, named by its format, its languages and its fingerprint."""
    stacks = parts.transformer.encoder, parts.transformer.decoder
    around = (*parts.before, *parts.after), parts.start
    limits = list(parts.max_positions)
    for n, ((path, count), stack, ids) in enumerate(zip(parts.vocabularies, stacks, around, strict=True)):
        rows = len(stack.embedding.pieces)
        if count > rows - parts.zero_start or max(ids, default=0) >= rows:
            message = f"{max(count, *(n + 1 for n in ids)):,} pieces on the {('source', 'target')[n]} side, but "
            message += f"{folder.checkpoint} was trained with {rows - parts.zero_start:,}"
            raise ModelError(message, file=str(path))
        positions = stack.embedding.positions
        if positions and not isinstance(positions, Sinusoids):
            limits[n] = min(limits[n], len(positions(0)))
    parts = replace(parts, max_positions=(limits[0], limits[1]))
    origin = folder.absolute(), device, dtype
    root = origin[0].root
    label = root.name if root.parent == BUNDLED else "-".join(parts.languages)
    return ModelRecorder(parts, f"{folder.backend}:{label}@{parts.digest}", origin)


def text_fingerprint(files: Iterable[Path], rules: Sequence[TextRules], *others: object) -> str:
    """Return the fingerprint of files, of text processing with its own files, and of whatever else links depend on."""
    spec = [(rule.language, rule.case, rule.tokenizer, rule.subwords) for rule in rules]
    subword_files = [rule.subword_file for rule in rules if rule.subword_file]
    return fingerprint([*files, *subword_files], repr((*others, spec) if others else spec))


def preprocessor(
    rules: TextRules,
    ids: Mapping[str, int],
    unk: int,
    segment: Segment | None = None,
    normalize: Callable[[str], str] | None = None,
) -> Preprocessor:
    """Return the text processing of a side whose pieces have these ids; see `Preprocessor`.

    Two models share that of a side which both read in the same way, and so the words that it has cached.
    """
    file = rules.subword_file and rules.subword_file.is_file() and file_digest(rules.subword_file)
    key = replace(rules, subword_file=None), file, segment, normalize, unk
    if not (side := _sides.get(key)) or side.known != ids:
        side = _sides[key] = Preprocessor(rules, lambda piece: ids.get(piece, unk), ids, segment, normalize)
    return side


_sides: WeakValueDictionary[tuple[object, ...], Preprocessor] = WeakValueDictionary()
"""Text processing in use, by what it depends on."""


def is_raw(rules: Iterable[TextRules]) -> bool:
    """Tell whether text is cut into pieces of sentencepiece as it is."""
    return all((rule.tokenizer, rule.subwords) == ("none", "sentencepiece") for rule in rules)


@contextmanager
def fitting(file: Path, hint: str = "", prefix: str = "weights and settings do not fit: ") -> Iterator[None]:
    """Raise the errors of settings and weights that do not fit each other as errors of a file."""
    try:
        yield
    except ModelError as error:
        raise error if error.file else error.in_file(str(file)) from None
    except ValueError as error:
        raise ModelError(f"{prefix}{error}", file=str(file), hint=hint) from None
