"""Training's parts: which pairs are taken, what a recipe may say, curves, and checkpoints made small."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from align.backends.fairseq.checkpoint import load_checkpoint
from align.training.corpus import Cleaner, read_pairs
from align.training.export import average, export, select, shrink
from align.training.follow import TrainingError, lines_of
from align.training.prepare import Bitext, prepare
from align.training.recipe import CheckpointRecipe, DataRecipe, TextRecipe, read_recipe
from align.training.run import (
    Machine,
    Point,
    describe_point,
    is_finished,
    last_whole_checkpoint,
    read_curve,
    read_point,
    write_curve,
)
from tests.toy import save_model

WORDS = st.lists(st.sampled_from(["a", "b", "C", "c"]), max_size=4).map(tuple)


def pair_files(folder: Path, source: str, target: str) -> tuple[Path, Path]:
    paths = folder / "text.de", folder / "text.en"
    for path, text in zip(paths, (source, target), strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def test_misaligned_files_are_named_with_the_line_where_one_ends(tmp_path: Path) -> None:
    source, target = pair_files(tmp_path, "a\nb\nc\n", "x\ny\n")
    pairs = read_pairs(source, target)
    assert next(pairs) == (("a",), ("x",), "")
    with pytest.raises(ValueError, match=r"text\.en ends after 2 lines, but .*text\.de goes on"):
        list(pairs)


def test_a_carriage_return_within_a_line_ends_a_word_and_no_line(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"eins\rzwei\ndrei\nvier\n")
    target.write_bytes(b"one two\r\nthree\rthree\nfour\n")
    pairs = [(words, other) for words, other, _ in read_pairs(source, target)]
    assert pairs == [(("eins", "zwei"), ("one", "two")), (("drei",), ("three", "three")), (("vier",), ("four",))]


def test_labels_must_be_as_many_as_pairs(tmp_path: Path) -> None:
    source, target = pair_files(tmp_path, "a\nb\n", "x\ny\n")
    labels = tmp_path / "labels"
    labels.write_text("news\n", encoding="utf-8")
    with pytest.raises(ValueError, match="labels ends after 1 lines"):
        list(read_pairs(source, target, labels))


def test_each_reason_to_leave_a_pair_out_is_counted() -> None:
    cleaner = Cleaner(DataRecipe(max_words=5, max_ratio=3), ["news*"], [(("in", "test"), ("im", "test"))])
    pairs = [
        (("a", "b"), ("x",), "news-1"),
        (("A", "b"), ("X",), "news-2"),  # the same but for case
        (("a",), (), "news-1"),
        (("a",) * 6, ("x",) * 6, "news-1"),
        (("a",), ("x",) * 4, "news-1"),
        (("In", "test"), ("im", "Test"), "news-1"),
        (("c",), ("z",), "talks"),
        (("c",), ("z",), "news-2"),
    ]
    assert list(cleaner(pairs)) == [(("a", "b"), ("x",)), (("c",), ("z",))]
    assert cleaner.kept == {"news-1": 1, "news-2": 1}
    assert cleaner.dropped == {
        "seen before": 1,
        "a side is empty": 1,
        "a side has more than 5 words": 1,
        "a side is more than 3 times as long as the other": 1,
        "in the validation or an excluded text": 1,
        "label not taken": 1,
    }


@given(st.lists(st.tuples(WORDS, WORDS), max_size=12))
def test_cleaning_keeps_or_counts_every_pair_and_changes_nothing_when_done_again(
    pairs: list[tuple[tuple[str, ...], tuple[str, ...]]],
) -> None:
    cleaner = Cleaner(DataRecipe())
    kept = list(cleaner((*pair, "") for pair in pairs))
    assert len(kept) + sum(cleaner.dropped.values()) == len(pairs)
    assert list(Cleaner(DataRecipe())((*pair, "") for pair in kept)) == kept


def test_the_recipes_of_the_repository_can_be_read() -> None:
    paper, small = read_recipe("kobayashi2020"), read_recipe()
    assert paper.seeds == (2253, 5498, 9819, 9240, 2453)
    assert paper.text.vocabulary == 10_000
    assert not paper.text.dummy_prefix
    assert "--eval-bleu" in paper.flags()
    assert small.checkpoint == CheckpointRecipe("best")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[data\n", "recipe.toml: "),
        ("[model]\n", "the file has model, but only"),
        ("[data]\nlines = 3\n", r"\[data\] has lines, but only"),
        ('[data]\nmax_words = "3"\n', r"max_words is '3', but must be of type int"),
        ("[data]\nvalid_lines = true\n", "must be of type int"),
        ('[text]\ncase = "upper"\n', "case is one of lower, keep"),
        ('[checkpoint]\nselect = "first"\n', "select is one of best, last, average"),
        ('[fairseq]\nsave-dir = "x"\n', "save-dir is not for a recipe to say"),
        ('[fairseq]\nsave_dir = "x"\n', "save_dir is not for a recipe to say"),
        ("[data]\nvalid_lines = 0\n", "valid_lines must be more than 0 and less than"),
        ("[checkpoint]\naverage = -1\n", "must be more than 0"),
        ("[data]\nmax_words = 0x" + "f" * 9999 + "\n", "max_words must be more than 0 and less than"),
        ("seeds = [0x" + "f" * 9999 + "]\n", "seeds are numbers from 0 to 2,147,483,648"),
        ('[fairseq]\nrestore-file = "x"\n', "restore-file is not for a recipe to say"),
        ('[fairseq]\n"save-dir=/x" = true\n', "save-dir=/x is not for a recipe to say"),
        ('[fairseq]\n"restore-file=x.pt" = true\n', "restore-file=x.pt is not for a recipe to say"),
        ("[fairseq]\npatience = 3\n", "patience is not for a recipe to say"),
        ("[fairseq]\nnonsense = 3\n", "nonsense is not for a recipe to say"),
        ("""[fairseq]\nadam-betas = "__import__('os').system('true') or (0.9, 0.98)"\n""", "value has '__' in it"),
        ('[fairseq]\narch = "${oc.env:HOME}"\n', r"value has '\$\{' in it"),
        ('[fairseq]\narch = "a\\u001b[2J"\n', r"value has '\\x1b' in it"),
        ('[fairseq]\narch = "--save-dir=/x"\n', "arch is '--save-dir=/x', which fairseq would take for an option"),
        ('[fairseq]\nlr = ["1"]\n', r"lr is \['1'\], but must be text, a number"),
        ("[fairseq]\nlr = [[1]]\n", "lr is .*, but must be"),
        ("[fairseq]\nlr = {a = 1}\n", "lr is .*, but must be"),
        ("[fairseq]\nlr = 2026-01-01\n", "lr is .*, but must be"),
        ("[fairseq]\nlr = nan\n", "lr is nan, but must be"),
        ("[fairseq]\nlr = inf\n", "lr is inf, but must be"),
        ("seeds = []\n", "one at least"),
        ("seeds = [inf]\n", "recipe.toml: cannot convert"),
        ("seeds = " + 100_000 * "[", "recipe.toml: "),
        ('seeds = ["one"]\n', "invalid literal"),
        ("data = 3\n", "recipe.toml: "),
    ],
)
def test_a_recipe_with_a_mistake_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_recipe(path)


def test_a_missing_recipe_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.toml: no such file"):
        read_recipe(tmp_path / "none.toml")


def test_flags_are_as_a_shell_gives_them(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    text = '[fairseq]\nlr = 0.5\neval-bleu = true\ntruncate-source = false\narch = "x"\nupdate-freq = [2, 4]\n'
    path.write_text(text, encoding="utf-8")
    assert read_recipe(path).flags() == ["--lr", "0.5", "--eval-bleu", "--arch", "x", "--update-freq", "[2, 4]"]


def test_a_cpu_is_told_so_and_bfloat16_is_for_training_only() -> None:
    assert Machine("cpu", 2).flags(training=True) == ["--cpu", "--cpu-bf16"]
    assert Machine("cpu", 2, bf16=False).flags(training=True) == ["--cpu"]
    assert Machine("cpu", 2).flags() == ["--cpu"]
    assert Machine("cuda", 2).flags() == []


LOG = """2026-01-01 00:00:00 | INFO | fairseq_cli.train | Namespace(...)
2026-01-01 00:00:01 | INFO | train_inner | {"epoch": 1, "loss": "10", "wps": "1,234.5", "num_updates": "100"}
2026-01-01 00:00:02 | INFO | valid | {"epoch": 1, "valid_nll_loss": "2", "valid_num_updates": "100"}
2026-01-01 00:00:03 | INFO | train_inner | {"epoch": 1, "loss": "9", "wps": "1000", "num_updates": "200"}
2026-01-01 00:00:03 | INFO | train_inner | {"epoch": 1, "loss": "8", "wps": "1000", "num_updates": "200"}
"""


def test_a_curve_is_in_nats_and_counts_what_was_done_again_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(LOG, encoding="utf-8")
    points = read_curve(log)
    assert [(point.updates, point.loss is None) for point in points] == [(100, False), (100, True), (200, False)]
    assert points[0].loss == pytest.approx(6.931472)
    assert points[1].valid == pytest.approx(1.386294)
    assert points[2].loss == pytest.approx(5.545177)
    assert describe_point(points[0]) == "update 100: loss 6.931, 1,234 target pieces/s"
    write_curve(points, tmp_path / "curve.tsv")
    rows = (tmp_path / "curve.tsv").read_text(encoding="utf-8").split("\n")
    assert rows[1:3] == ["100\t6.9315\t\t1234", "100\t\t1.3863\t"]
    assert read_point("no json | train_inner | {") is None
    assert read_point(LOG.split("\n")[0]) is None


def saved_run(folder: Path, *updates: int) -> list[Path]:
    """A run with checkpoints whose weights are the toy's times a factor of their own."""
    paths = []
    for factor, number in enumerate(updates, 1):
        path = save_model(folder / f"made{number}")
        state = torch.load(path, weights_only=False)
        state["model"] = {name: weight * factor for name, weight in state["model"].items()}
        state["cfg"]["task"] = {**state["cfg"].get("task", {}), "data": "/home/me", "cpu_bf16": True}
        state["cfg"]["criterion"] = {"_name": "blockwise_label_smoothed_cross_entropy"}
        state["cfg"]["model"].cpu_bf16 = True
        state["cfg"]["model"].data = "/home/me"
        state["optimizer_history"] = [{"num_updates": number}]
        state["last_optimizer_state"] = {"huge": torch.zeros(10)}
        paths.append(folder / f"checkpoint_1_{number}.pt")
        torch.save(state, paths[-1])
    return paths


def test_the_last_checkpoints_are_averaged(tmp_path: Path) -> None:
    saved_run(tmp_path, 500, 1000, 9500, 10000)
    found = select(tmp_path, CheckpointRecipe("average", 3))
    assert [path.name for path in found] == ["checkpoint_1_1000.pt", "checkpoint_1_9500.pt", "checkpoint_1_10000.pt"]
    mean = average(found)["model"]
    for name, weight in load_checkpoint(tmp_path / "checkpoint_1_500.pt")["model"].items():
        if weight.numel() > 1:  # the others are fairseq's, and mean nothing
            torch.testing.assert_close(mean[name], weight * 3)


def test_no_checkpoint_to_take_is_said(tmp_path: Path) -> None:
    for how in ("best", "last", "average"):
        with pytest.raises(ValueError, match="no checkpoint there to take"):
            select(tmp_path, CheckpointRecipe(how))


def test_checkpoints_of_different_models_are_not_averaged(tmp_path: Path) -> None:
    (path,) = saved_run(tmp_path, 500)
    state = torch.load(path, weights_only=False)
    state["model"].popitem()
    torch.save(state, tmp_path / "checkpoint_1_600.pt")
    with pytest.raises(ValueError, match="not of the same model"):
        average(select(tmp_path, CheckpointRecipe("average")))


def test_what_is_exported_is_small_plain_and_without_paths(tmp_path: Path) -> None:
    saved_run(tmp_path, 500)
    assert export(tmp_path, CheckpointRecipe("average"), tmp_path / "out.pt") == [tmp_path / "checkpoint_1_500.pt"]
    state = load_checkpoint(tmp_path / "out.pt")
    assert {weight.dtype for weight in state["model"].values()} == {torch.float16}
    assert not any("in_proj" in name for name in state["model"])
    assert state["last_optimizer_state"] is None
    assert state["cfg"]["model"].arch == state["cfg"]["model"]._name == "transformer"
    assert (state["cfg"]["task"]["_name"], state["cfg"]["task"]["data"]) == ("translation", ".")
    assert state["cfg"]["criterion"]["_name"] == "label_smoothed_cross_entropy"
    assert "/home/me" not in repr(state["cfg"])
    assert "cpu_bf16" not in repr(state["cfg"])
    assert not list(tmp_path.glob(".*.part"))


def test_weights_beyond_half_precision_are_refused(tmp_path: Path) -> None:
    (path,) = saved_run(tmp_path, 500)
    state = load_checkpoint(path)
    name = next(name for name in state["model"] if name.endswith("fc1.weight"))
    state["model"][name] = state["model"][name].fill_(1e6)
    with pytest.raises(ValueError, match="not finite in half precision"):
        shrink(state)


def test_a_folder_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    source, target = pair_files(tmp_path, "a b\n" * 3, "x y\n" * 3)
    work = tmp_path / "work"
    work.mkdir()
    (work / "precious").touch()
    recipe = read_recipe()
    with pytest.raises(ValueError, match="not ours to work in"):
        prepare(Bitext(("de", "en"), (source, target)), recipe, work, print)
    assert (work / "precious").exists()


@pytest.mark.parametrize(
    ("options", "updates", "hours", "finished"),
    [
        ({"max-update": 300}, 299, 0, False),
        ({"max-update": 300}, 300, 0, True),
        ({"max-update": "300"}, 301, 0, True),
        ({"max-update": 0}, 300, 0, False),
        ({"max-epoch": 3}, 300, 99, False),  # fairseq looks at these before it begins
        ({"stop-time-hours": 1.5}, 300, 1.4, False),
        ({"stop-time-hours": 1.5, "max-update": 500}, 300, 1.6, True),
    ],
)
def test_the_checkpoint_says_whether_its_run_is_finished(
    options: dict[str, object], updates: int, hours: float, finished: bool
) -> None:
    recipe = replace(read_recipe(), fairseq=options)
    state = {
        "optimizer_history": [{"num_updates": 7}, {"num_updates": updates}],
        "extra_state": {"previous_training_time": hours * 3600},
    }
    assert is_finished(state, recipe) is finished


def test_a_log_is_read_along_and_a_line_cut_by_a_kill_spoils_none(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(LOG.encode() + b'2026-01-01 | INFO | valid | {"epoch": 1, "valid_n\xc3')
    with lines_of("preprocess", ["--help"], 1, log) as lines:
        said = list(lines)
    assert said[0].startswith("usage: ")
    assert len(read_curve(log)) == 3
    with (
        pytest.raises(TrainingError, match=r"exit code 2.*all that it said is in .*log"),
        lines_of("x", [], 1, log) as _,
    ):
        pass


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("a\n\n", "\ny\n", "no pairs left to train on; left out: {'a side is empty': 2}"),
        ("a b c\nd e f\n", "x y z\nu v w\n", "cannot learn 4,000 pieces of de: .*[Vv]ocab"),
        ("a\n", "x\ny\n", "ends after 1 lines"),
    ],
)
def test_text_that_cannot_be_trained_on_is_refused(tmp_path: Path, source: str, target: str, message: str) -> None:
    (tmp_path / "valid").mkdir()
    valid = pair_files(tmp_path / "valid", "g h\n", "r s\n")
    bitext = Bitext(("de", "en"), pair_files(tmp_path, source, target), valid)
    with pytest.raises(ValueError, match=message):
        prepare(bitext, read_recipe(), tmp_path / "w", print)


def test_a_last_checkpoint_that_was_cut_short_is_put_right(tmp_path: Path) -> None:
    (older, newer) = saved_run(tmp_path, 500, 1000)
    os.utime(older, (1, 1))
    last = tmp_path / "checkpoint_last.pt"
    assert last_whole_checkpoint(tmp_path) is None
    last.write_bytes(newer.read_bytes())
    assert last_whole_checkpoint(tmp_path) == last
    last.write_bytes(newer.read_bytes()[:-100])
    assert last_whole_checkpoint(tmp_path) == newer
    assert last.read_bytes() == newer.read_bytes()
    for path in (last, older, newer):
        path.write_bytes(b"cut")
    assert last_whole_checkpoint(tmp_path) is None
    assert not last.exists()


def test_a_disk_that_fills_at_the_end_leaves_an_error_with_a_name(tmp_path: Path) -> None:
    saved_run(tmp_path, 500)
    with pytest.raises(OSError, match="No space left"):
        export(tmp_path, CheckpointRecipe("average"), Path("/dev/full"))


def test_text_that_is_the_same_elsewhere_is_not_prepared_again(tmp_path: Path) -> None:
    recipe = replace(read_recipe(), text=TextRecipe(vocabulary=40, min_count=1))
    bitexts = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        files = pair_files(tmp_path / name, "das haus ist alt\nder hund\n", "the house is old\nthe dog\n")
        bitexts.append(Bitext(("de", "en"), files, pair_files(tmp_path, "ein haus\n\n", "a house\n\n")))
    said: list[str] = []
    first = prepare(bitexts[0], recipe, tmp_path / "work", said.append)
    assert (first.train, first.valid, len(said)) == (2, 1, 5)
    (tmp_path / "work.preparing").touch()  # as a kill at the very end leaves it
    assert prepare(bitexts[1], recipe, tmp_path / "work", said.append) == first
    assert len(said) == 5
    assert not (tmp_path / "work.preparing").exists()


def test_points_show_what_they_have() -> None:
    assert describe_point(Point(1500, None, 2.5, None)) == "update 1,500: validation loss 2.500 nats per piece"
