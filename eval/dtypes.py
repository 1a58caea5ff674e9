"""What narrower arithmetic changes: error rates and links in bfloat16 and int8, and in int8 but for some layers.

Layer and head are those that float32 chooses. Links that change are counted on the first pairs of the training text,
where there are many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from common import (
    Text,
    chosen,
    find_experiment,
    load_model,
    read_config,
    read_text,
    read_train,
    score_columns,
    score_row,
    swapped,
    write_table,
)

from align import Aligner, Pair, Settings, two_way
from align.core.types import DTYPES, Links
from align.evaluation.metrics import count_all
from align.evaluation.tables import Column, Value
from align.io.signature import signature
from align.models.engine.forward import Layer, Transformer
from align.models.recorder import ModelRecorder

Kept = Callable[[Layer, Layer], Layer]
"""Of an int8 layer and the same one in float32: the layer that is run."""


def wide_cross(narrow: Layer, wide: Layer) -> Layer:
    """int8 but for queries, keys and values of the cross-attention."""
    return replace(narrow, cross=wide.cross)


def narrow_feed(narrow: Layer, wide: Layer) -> Layer:
    """float32 but for the feed-forward network."""
    return replace(wide, feed_forward=narrow.feed_forward, feed_forward_block=narrow.feed_forward_block)


PARTS: dict[str, Callable[[Transformer, Transformer], Transformer]] = {
    "int8, encoder float32": lambda narrow, wide: replace(narrow, encoder=wide.encoder),
    "int8, decoder float32": lambda narrow, wide: replace(narrow, decoder=wide.decoder),
    "int8, cross-attention float32": lambda narrow, wide: mixed(narrow, wide, wide_cross),
    "int8 in feed-forward layers only": lambda narrow, wide: mixed(narrow, wide, narrow_feed),
}
"""By name, of a model in int8 and the same in float32."""


def mixed(narrow: Transformer, wide: Transformer, kept: Kept) -> Transformer:
    """A model made of layers of both."""
    encoder, decoder = (
        replace(small, layers=[kept(*layers) for layers in zip(small.layers, large.layers, strict=True)])
        for small, large in ((narrow.encoder, wide.encoder), (narrow.decoder, wide.decoder))
    )
    return Transformer(encoder, decoder)


def transformer_of(aligner: Aligner) -> Transformer:
    """Its model.

    Raises:
        ValueError: it is of another backend.
    """
    recorder: object = aligner.forward.recorder
    if not isinstance(recorder, ModelRecorder):
        raise ValueError(f"{aligner.forward.recorder.name} is not run by this package's own forward pass")
    return recorder.transformer


def ways(name: str, data: Path, plain: Aligner) -> Iterator[tuple[str, Aligner]]:
    """The same model in other arithmetic, read where `plain` is."""
    narrow = plain
    for dtype in DTYPES:
        narrow = replace(
            plain, forward=replace(plain.forward, recorder=load_model(name, data, "cpu", dtype=dtype).forward.recorder)
        )
        yield dtype, narrow
    int8 = transformer_of(narrow)
    for part, build in PARTS.items():
        recorder: object = narrow.forward.recorder
        assert isinstance(recorder, ModelRecorder)
        recorder.transformer = build(int8, transformer_of(plain))
        yield part, narrow


def links_of(aligner: Aligner, pairs: Sequence[Pair]) -> list[Links]:
    """Links of all pairs."""
    return [alignment.links for alignment in aligner(pairs)]


def rows_of(
    both: Sequence[Iterator[tuple[str, Aligner]]], text: Text, more: Sequence[Pair]
) -> Iterator[dict[str, Value]]:
    """A row for one model and for both in each arithmetic."""
    before: dict[str, tuple[list[Links], list[Links]]] = {}
    for (dtype, one), (_, back) in zip(*both, strict=True):
        for models, aligner in (("one", one), ("two", two_way(one, back))):
            of_gold, of_more = links_of(aligner, text.pairs), links_of(aligner, more)
            gold, other = before.setdefault(models, (of_gold, of_more))
            reference = None if gold is of_gold else count_all(gold, text.gold)
            changed = sum(a != b for a, b in zip(of_more, other, strict=True))
            different = sum(len(a ^ b) for a, b in zip(of_more, other, strict=True))
            row: dict[str, Value] = {"models": models, "products": dtype, "lines changed": 100 * changed / len(more)}
            row["links changed"] = 100 * different / max(1, sum(map(len, other)))
            yield row | score_row(count_all(of_gold, text.gold), text, reference)


def run(data: Path, config: Path, experiment: str, lines: int, output: Path) -> None:
    """Align, print, write.

    Raises:
        argparse.ArgumentError: there is no such experiment.
    """
    settings = read_config(config)
    about = find_experiment(settings, experiment)
    text = read_text(settings, about["gold"], data)
    more = list(islice(read_train(settings["train"][about["train"][0]], data), lines))
    names = about["models"][0], about["reverse_models"][0]
    one, back = (
        replace(
            load_model(name, data, "cpu", too_long="blank"),
            forward=replace(load_model(name, data, "cpu", too_long="blank").forward, settings=Settings()),
        )
        for name in names
    )
    one = replace(one, forward=replace(one.forward, choice=chosen(one, more)))
    back = replace(back, forward=replace(back.forward, choice=chosen(back, swapped(more))))
    columns = [Column("models", "models"), Column("products", "products")]
    columns += [Column(f"{what} changed", f"{what} changed, %", 2) for what in ("lines", "links")]
    rows = list(rows_of([ways(names[0], data, one), ways(names[1], data, back)], text, more))
    sign = signature({"model": [one.forward.recorder.name, back.forward.recorder.name], "lines": lines}, "dtypes")
    write_table([*columns, *score_columns(text)], rows, sign, output / f"{experiment}.dtypes.tsv")
