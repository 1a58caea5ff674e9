"""Check that the tests notice sixty faults: small errors that change results or break a promise silently.

    python -m tests.faults [NAME ...] [--tests "PYTEST ARGUMENTS"] [--check]

Each fault is put into a copy of the checkout, where the tests named with it run, and if they pass the quick
ones. It is killed if a test fails that passes without it. Exit code 1 if more than three survive, or the
code does not have an old text once: then edit the table. `--check` compares both, and runs no test.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
SHARED = os.environ.get("EXTRACT_ALIGN_DATA", ROOT.parent / "shared" / "data")
QUICK = "tests/unit tests/parity tests/cli tests/integration"
SECONDS, MAX_SURVIVORS = 3600, 3

TABLE = r"""
=== scores
sources-by-mean  core/scores.py  tests/unit/test_merging.py
- merged = scores @ into_source.unsqueeze(1)
+ merged = scores @ (into_source / into_source.sum(1, keepdim=True).clamp(min=1)).unsqueeze(1)
targets-by-sum  core/scores.py  tests/unit/test_merging.py
- merged /= into_target.sum(1).clamp_(min=1)[:, None, :, None]
+ merged /= 1
positions-exchanged  core/scores.py  tests/unit/test_scores.py
- return scores[..., 1:, :] if position == "input"
+ return scores[..., 1:, :] if position == "output"
null-is-the-last-word  core/scores.py  tests/unit/test_scores.py
- unaligned = (index == eos)
+ unaligned = (index > eos)
cross-terms-once  core/scores.py  tests/unit/test_norms.py
- value=2)
+ value=1)
position-without-root  core/scores.py  tests/integration/test_both_positions.py
- return a * b.sqrt_()
+ return a * b
reverse-not-transposed  core/scores.py  tests/unit/test_soft.py
- reverse.double().transpose(1, 2)
+ reverse.double().reshape(first.shape)
threshold-included  core/scores.py  tests/unit/test_soft.py
- (by_source > threshold)
+ (by_source >= threshold)
neighbour-of-itself  core/scores.py  tests/unit/test_soft.py
- .mT.sub_(scores).clamp_(min=0)
+ .mT.clamp_(min=0)
=== choice of layer and head
last-head-not-tried  core/choice.py  tests/unit/test_aligner.py
- range(1, recorder.heads + 1)
+ range(1, recorder.heads)
consistent-with-itself  core/consistency.py  tests/unit/test_consistency.py
- (pair - 1) / ((of_source - 1.0) * (of_target - 1.0))
+ pair / (of_source * of_target)
=== stream and aligner
numbers-in-another-order  core/stream.py  tests/parity/test_batching.py
- yield [numbers[n] for n in batch], [
+ yield sorted(numbers[n] for n in batch), [
batch-of-one-dropped  core/stream.py  tests/unit/test_batching.py
- if batch:
+ if len(batch) > 1:
last-buffer-dropped  core/stream.py  tests/integration/test_workers.py
- while waiting and (
+ while len(waiting) > 1 and (
order-not-restored  core/stream.py  tests/integration/test_workers.py
- for n, pair in enumerate(pairs):
+ for n, pair in zip(outcomes, pairs):
one-side-too-long  core/stream.py  tests/parity/test_batching.py
- lengths[0] <= limits[0] and
+ lengths[0] <= limits[0] or
reverse-links-unflipped  core/aligner.py  tests/integration/test_two_way.py
- link[::-1]: score
+ link: score
=== symmetrisation and formats
straight-neighbours-only  core/symmetrize.py  tests/unit/test_symmetrize.py
- ((0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, 0), (1, -1), (1, 1))
+ ((0, 1), (-1, 0), (0, -1), (1, 0))
final-for-final-and  core/symmetrize.py  tests/unit/test_symmetrize.py
- "grow-diag-final-and": heuristic(_grow_diag, Growing.both_free)
+ "grow-diag-final-and": heuristic(_grow_diag, Growing.one_free)
naacl-from-0  core/formats.py  tests/unit/test_formats.py
- {i + 1} {j + 1} S
+ {i} {j} S
a3-without-null  core/formats.py  tests/unit/test_formats.py
- linked[0] = [j + 1 for j in alignment.null]
+ linked[0] = []
=== reader, output and resuming
split-at-no-break-spaces  core/text.py  tests/unit/test_words.py
- text.split() if words == "unicode" else filter
+ text.split() if words else filter
carriage-return-kept  io/reader.py  tests/unit/test_lines.py
- .removesuffix(b"\r")
+ .removesuffix(b"")
bad-bytes-replaced  io/reader.py  tests/unit/test_lines.py
- text = raw.decode()
+ text = raw.decode(errors="replace")
blank-lines-dropped  io/reader.py  tests/unit/test_lines.py
- enumerate(stream, 1)
+ enumerate(filter(bytes.strip, stream), 1)
columns-sorted  io/reader.py  tests/unit/test_lines.py
- for column in columns)
+ for column in sorted(columns))
shorter-file-wins  io/reader.py  tests/unit/test_lines.py
- zip_longest(*streams)
+ zip(*streams)
output-in-place  io/output.py  tests/cli/test_output.py
- return os.path.join(folder, f".{name[:20]}.{digest}.part")
+ return target
no-line-for-no-link  cli/common.py  tests/cli/test_bad_lines.py
- out.write(text.encode() + b"\n")
+ out.write(text.encode() + b"\n" * bool(text))
last-shard-not-joined  io/shards.py  tests/cli/test_resume.py
- range(1, self._number + 1)
+ range(1, self._number)
resumed-with-other-settings  io/shards.py  tests/cli/test_resume.py
- differences(_read(record), self._run)
+ differences(self._run, self._run)
=== evaluation
possible-counted-as-sure  evaluation/metrics.py  tests/unit/test_metrics.py
- len(links), len(gold.sure)
+ len(links), len(gold.possible)
mean-over-sentences  evaluation/metrics.py  tests/unit/test_metrics.py
- value = _known(METRICS[metric](counts.sum(0)))
+ value = _known(np.nanmean(METRICS[metric](counts)))
bootstrap-not-centred  evaluation/metrics.py  tests/unit/test_metrics.py
- np.abs(deltas - deltas.mean())
+ np.abs(deltas)
base-guessed  evaluation/link_files.py  tests/unit/test_link_files.py
- if zero or at_length:
+ if zero or at_length or not lengths:
small-p-is-sure  evaluation/link_formats.py  tests/unit/test_formats.py
- match[4] not in ("P", "p")
+ match[4] != "P"
=== engine, loaders and search
query-bias-unscaled  models/engine/builder.py  tests/parity/test_inside.py
- (weight * scale, bias * scale)
+ (weight * scale, bias)
next-piece-seen  models/engine/forward.py  tests/parity/test_huggingface.py
- .triu(1)
+ .triu(2)
pads-seen  models/engine/forward.py  tests/parity/test_batching.py
- masked_fill_(~kept, float("-inf"))
+ masked_fill_(~kept, 0.0)
buckets-of-the-other-side  models/huggingface/t5.py  tests/parity/test_huggingface.py
- buckets = (distances < 0) * count
+ buckets = (distances > 0) * count
another-gelu  models/causal/families.py  tests/parity/test_huggingface.py
- "gelu_new": "gelu_tanh"
+ "gelu_new": "gelu_sigmoid"
embeddings-always-scaled  models/huggingface/families.py  tests/parity/test_huggingface.py
- scaled=config.switch("scale_embedding", False)
+ scaled=True
decoder-without-eos  models/huggingface/families.py  tests/parity/test_huggingface.py
- None, "source pieces eos", "eos target",
+ None, "source pieces eos", "target",
start-is-a-piece  models/marian/model.py  tests/parity/test_marian.py
- table.new_zeros(1, table.shape[1])
+ table[:1]
values-as-keys  models/ctranslate2/model.py  tests/parity/test_ctranslate2.py
- ("encoder_attn", "kv")
+ ("encoder_attn", "vk")
groups-interleaved  models/causal/forward.py  tests/parity/test_causal.py
- x.repeat_interleave(self.heads // self.groups, 1)
+ x.repeat(1, self.heads // self.groups, 1, 1)
length-without-eos  models/engine/search.py  tests/parity/test_translate_huggingface.py
- (step + 1) **
+ max(step, 1) **
empty-translations  models/engine/search.py  tests/parity/test_translate_huggingface.py
- elif step == 0:
+ elif step < 0:
=== transfer of tags
siblings-reversed  transfer/markup.py  tests/unit/test_markup.py
- for part in reversed(items[begin:end]):
+ for part in items[begin:end]:
text-not-escaped  transfer/standins.py  tests/unit/test_pages.py
- escape(text, quote=False) if
+ text if
placeholder-lost  models/translate.py  tests/unit/test_pages.py
- return all(len(re.findall(
+ return any(len(re.findall(
fuzzy-message-changed  transfer/catalogs.py  tests/unit/test_industry_files.py
- if (entry.fuzzy and not fuzzy) or
+ if
=== service, jobs, other programs
limit-ignored  service/app.py  tests/service/test_app.py
- if len(contents) > self._request_pairs
+ if len(contents) > 10 * self._request_pairs
answers-in-another-order  service/rounds.py  tests/service/test_app.py
- zip(pairs, _attempt(
+ zip([*pairs][::-1], _attempt(
changed-file-counts-as-done  jobs/job.py  tests/scale/test_shards.py
- or state != [*file[1:]]:
+ or state[:1] != [file.size]:
matrix-transposed  compat/machine.py  tests/integration/test_compat.py
- [link for link in soft if soft[link] > THRESHOLD]
+ [link[::-1] for link in soft if soft[link] > THRESHOLD]
=== security
page-not-escaped  view/page.py  tests/unit/test_page.py
- .replace("<", r"\u003c")
+ .strip()
terminal-not-protected  core/errors.py  tests/unit/test_errors.py
- c if c.isprintable() else
+ c if c >= " " else
pickle-allowed  models/saved.py  tests/hostile/test_code.py
- weights_only=True
+ weights_only=False
file-of-another-folder  models/model_toml.py  tests/unit/test_model_folder.py
- re.fullmatch(r"[\w.-]{1,100}", name)
+ re.fullmatch(r"[\w./-]{1,100}", name)
"""


class Fault(NamedTuple):
    """An error to put into a file of align/; the tests are those that should notice it."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def read_table() -> list[Fault]:
    """Return the faults of the table."""
    lines = [line for line in TABLE.splitlines() if line and not line.startswith("===")]
    faults = []
    for head, old, new in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
        name, file, *tests = head.split()
        assert (old[:2], new[:2]) == ("- ", "+ "), f"{name}: two lines with - and + follow it"
        faults.append(Fault(name, file, old[2:], new[2:], tuple(tests)))
    assert len({fault.name for fault in faults}) == len(faults), "a name occurs twice"
    return faults


def faulty(fault: Fault) -> str:
    """Return the text of the file with the fault."""
    path = ROOT / "align" / fault.file
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if (count := text.count(fault.old)) != 1:
        raise ValueError(f"align/{fault.file} has {fault.old!r} {count} times: edit the table")
    text = text.replace(fault.old, fault.new)
    name = f"align.{fault.file.removesuffix('.py').replace('/', '.')}"
    module = vars(import_module(name))
    assert Path(module["__file__"]) == path, f"start this in {ROOT}"
    try:
        exec(compile(text, path, "exec"), {k: module[k] for k in ("__name__", "__package__", "__file__")})
    except Exception as error:
        raise ValueError(f"{name} cannot be imported with it, which any test notices: {error!r}") from None
    return text


def failing_tests(root: Path, *arguments: str) -> list[str]:
    """Run pytest in a checkout, and return the tests that fail; none if it takes longer than SECONDS."""
    environment = {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", "EXTRACT_ALIGN_DATA": str(SHARED)}
    options = ("-q", "-n", "0", "-p", "no:cacheprovider", "-rfE", "--tb=no")
    command, env = [sys.executable, "-m", "pytest", *options, *arguments], os.environ | environment
    try:
        done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return []
    tests = re.findall(r"^(?:FAILED|ERROR) ([^\s\[]+::[^\s\[]+)", done.stdout, re.MULTILINE)
    if done.returncode and (done.returncode != 1 or not tests):
        raise ValueError(f"pytest {' '.join(arguments)} ends with {done.returncode}:\n{done.stdout[-2000:]}")
    return tests


def killer(fault: Fault, text: str, root: Path, quick: Sequence[str]) -> str:
    """Return the first test that fails in a checkout with the faulty text; "" if there is none."""
    path = root / "align" / fault.file
    before = path.read_text(encoding="utf-8")
    path.write_text(text, encoding="utf-8")
    try:
        named = [test for test in fault.tests if (root / test).exists()]
        tests = (named and failing_tests(root, "-x", *named)) or failing_tests(root, "-x", *quick)
    finally:
        path.write_text(before, encoding="utf-8")
    return tests[0] if tests else ""


def copy_checkout(root: Path) -> None:
    """Copy the files of the checkout that git does not ignore."""
    listed = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():  # not deleted
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name)
    (root / ".venv").symlink_to(ROOT / ".venv")


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=str(__doc__).split("\n")[0])
    parser.add_argument("names", metavar="NAME", nargs="*", help="faults to try; all by default")
    parser.add_argument("--tests", default=QUICK, help=f"tests where those named pass (default: {QUICK})")
    parser.add_argument("--check", action="store_true", help="only compare the table with the code")
    args = parser.parse_args()
    table = read_table()
    if unknown := set(args.names) - {fault.name for fault in table}:
        parser.error(f"{min(unknown)} is not in the table")
    faults = [fault for fault in table if not args.names or fault.name in args.names]
    texts: dict[Fault, str] = {}
    for fault in faults:
        try:
            texts[fault] = faulty(fault)
        except ValueError as error:
            print(f"{fault.name}: {error}")
    unclear = len(faults) - len(texts)
    if args.check:
        return int(unclear > 0)
    killers: dict[str, str] = {}
    with TemporaryDirectory(prefix="faults-") as folder:
        root = Path(folder).resolve()
        copy_checkout(root)
        for fault, text in texts.items():
            start = time.monotonic()
            if test := killer(fault, text, root, shlex.split(args.tests)):
                killers[fault.name] = test
            print(f"{fault.name:28}{test or 'SURVIVED'} ({time.monotonic() - start:.0f} s)", flush=True)
        for test in failing_tests(root, *sorted(set(killers.values()))) if killers else ():
            print(f"{test} fails without a fault, too")
            killers = {name: killer for name, killer in killers.items() if killer != test}
    survived = len(faults) - len(killers) - unclear
    print(f"{len(faults)} faults, {survived} survived, {unclear} unclear")
    return int(survived > MAX_SURVIVORS or unclear > 0)


if __name__ == "__main__":
    sys.exit(main())
