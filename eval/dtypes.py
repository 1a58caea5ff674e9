"""What narrower arithmetic changes: error rates and links in bfloat16 and int8.

Layer and head are those that float32 chooses. Links that change are counted on the first pairs of the training text,
where there are many. ONEDNN_MAX_CPU_ISA=AVX2 computes as a processor without VNNI instructions does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from align import Aligner, Pair, load, two_way
from align.core.types import DTYPES, Links
from align.evaluation.metrics import count_all
from align.evaluation.tables import Column, Value
from align.io.signature import signature
from align.models.engine.linear import largest_int8_weight
from eval.common import (
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


def ways(name: str, data: Path, plain: Aligner) -> Iterator[tuple[str, Aligner]]:
    """Return the same model in other arithmetic, read where `plain` is."""
    for dtype in DTYPES:
        recorder = load_model(name, data, "cpu", dtype=dtype).forward.recorder
        yield dtype, replace(plain, forward=replace(plain.forward, recorder=recorder))


def links_of(aligner: Aligner, pairs: Sequence[Pair]) -> list[Links]:
    """Links of all pairs."""
    return [alignment.links for alignment in aligner(pairs)]


def rows_of(
    both: Sequence[Iterator[tuple[str, Aligner]]], kind: str, text: Text, more: Sequence[Pair]
) -> Iterator[dict[str, Value]]:
    """Yield a row for one model and for both in each arithmetic; `kind` follows their number."""
    before: dict[str, tuple[list[Links], list[Links]]] = {}
    for (dtype, one), (_, back) in zip(*both, strict=True):
        for models, aligner in ((f"one{kind}", one), (f"two{kind}", two_way(one, back))):
            of_gold, of_more = links_of(aligner, text.pairs), links_of(aligner, more)
            gold, other = before.setdefault(models, (of_gold, of_more))
            reference = None if gold is of_gold else count_all(gold, text.gold)
            changed = sum(a != b for a, b in zip(of_more, other, strict=True))
            different = sum(len(a ^ b) for a, b in zip(of_more, other, strict=True))
            row: dict[str, Value] = {"models": models, "products": dtype, "lines changed": 100 * changed / len(more)}
            row["links changed"] = 100 * different / max(1, sum(map(len, other)))
            yield row | score_row(count_all(of_gold, text.gold), text, reference)


def directions(names: Sequence[str], data: Path, pairs: Sequence[Pair]) -> Iterator[Aligner]:
    """Yield a model and its reverse one, read where they choose to be for a text."""
    for name, side in zip(names, (pairs, swapped(pairs)), strict=True):
        model = load(str(data / name) if "/" in name else name, device="cpu", too_long="blank", scorer=None)
        yield replace(model, forward=replace(model.forward, choice=chosen(model, side)))


def run(data: Path, config: Path, experiment: str, students: Sequence[str], lines: int, output: Path) -> None:
    """Align, print, write.

    Raises:
        argparse.ArgumentError: there is no such experiment.
    """
    settings = read_config(config)
    about = find_experiment(settings, experiment)
    text = read_text(settings, about["gold"], data)
    more = list(islice(read_train(settings["train"][about["train"][0]], data), lines))
    names = about["models"][0], about["reverse_models"][0]
    rows: list[dict[str, Value]] = []
    recorders: list[str] = []
    for kind, of_kind in (("", names), (" distilled", students)):
        if of_kind:
            models = list(directions(of_kind, data, more))
            both = [ways(name, data, model) for name, model in zip(of_kind, models, strict=True)]
            rows += rows_of(both, kind, text, more)
            recorders += [model.forward.recorder.name for model in models]
    columns = [Column("models", "models"), Column("products", "products")]
    columns += [Column(f"{what} changed", f"{what} changed, %", 2) for what in ("lines", "links")]
    without_vnni = "_without_vnni" if largest_int8_weight() < 127 else ""
    sign = signature({"model": recorders, "lines": lines}, "dtypes")
    write_table([*columns, *score_columns(text)], rows, sign, output / f"{experiment}.dtypes{without_vnni}.tsv")
