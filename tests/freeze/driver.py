"""Runs cases with the tree that PYTHONPATH names: a JSON line of words in, a JSON line of results out.

Each case is run by forks in an empty folder, where `in` leads to the inputs. Its words are those of command lines with
";" between: `WORDS… < FILE`, or an operation such as `@copy FROM TO` (`OPERATIONS`).
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pkgutil
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

RECORDS = ("_run", ".run.json", ".parts")
"""In names of files that record a run, which say when and how: only the results are compared."""


def is_record(name: str) -> bool:
    """Tell whether a file is a record."""
    return any(part.endswith(RECORDS) for part in Path(name).parts)


def written(folder: Path = Path()) -> dict[str, bytes]:
    """Return the files that a case wrote, by name, without records and inputs."""
    names = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: path.read_bytes() for name, path in names.items() if not is_record(name) and name[:3] != "in/"}


def run_program(words: list[str]) -> int:
    """Run a command line in this process."""
    from align.cli.main import main

    try:
        code = main(words) or 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    sys.stdout.flush()
    return code


# Operations: what is no command line


def copy(source: str, target: str) -> None:
    """Copy a file or folder of the inputs, to change it."""
    (shutil.copytree if Path(source).is_dir() else shutil.copy)(source, target)


def compare(one: str, other: str) -> None:
    """Print whether two files, or all files in two folders, are the same."""
    sides = [written(Path(name)) if Path(name).is_dir() else {"": Path(name).read_bytes()} for name in (one, other)]
    print(f"{one} and {other}: the same {sides[0] == sides[1]}")
    shutil.rmtree(other) if Path(other).is_dir() else Path(other).unlink()


def kill(share: str, full: str, *words: str) -> None:
    """Kill a command line when it has written a share of the bytes of an earlier file or folder."""

    def size(path: Path) -> int:
        files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
        with contextlib.suppress(FileNotFoundError):
            return sum(file.stat().st_size for file in files)
        return 0

    enough = float(share) * size(Path(full))
    others = {path.name for path in Path().iterdir()}
    if not (child := os.fork()):
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # how much it says depends on when it is killed
        os._exit(run_program(list(words)))
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if sum(size(path) for path in Path().iterdir() if path.name not in others) >= enough:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            print("killed", file=sys.stderr)
            return
        time.sleep(0.0005)
    print("ended before it was killed", file=sys.stderr)


def serve(requests: str, *words: str) -> None:
    """Start a service, and print the answer to each request in a file."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "align", "serve", "--port", str(port), *words]
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:
        try:
            for _ in range(600):
                with contextlib.suppress(OSError):
                    if urllib.request.urlopen(f"{url}/health").status == 200:
                        break
                time.sleep(0.1)
            for line in Path(requests).read_text(encoding="utf-8").splitlines():
                method, path, body, headers, *times = json.loads(line.replace("LONG", "a " * 2000))
                if times:
                    body["pairs"] *= times[0]
                data = body.encode() if isinstance(body, str) else body and json.dumps(body).encode()
                request = urllib.request.Request(url + path, data, headers, method=method)
                try:
                    answer = urllib.request.urlopen(request, timeout=120)
                except urllib.error.HTTPError as error:
                    answer = error
                text = answer.read().decode()
                if answer.status >= 400:
                    text = ""  # a message
                elif path in ("/", "/health", "/openapi.json"):
                    text = " ".join(sorted(json.loads(text)))
                print(method, path, answer.status, answer.headers["content-type"], text)
        finally:
            server.terminate()


def lines_of(name: str, count: int) -> list[str]:
    return Path(name).read_text(encoding="utf-8").split("\n")[:count]


def translations(model: str, source: str, count: str, *options: str) -> None:
    """Print translations of lines, and the links and scores of each."""
    import align

    languages: Any = dict(option.split("=") for option in options)
    aligner = align.load(model, device="cpu", options=align.ModelOptions(**languages), too_long="blank")
    for beam in (1, 5):
        for found in align.translate(aligner, lines_of(source, int(count)), align.Search(beam=beam)):
            scores = [[i, j, f"{score:.4f}"] for (i, j), score in sorted(found.scores.items())]
            print(json.dumps([beam, " ".join(found.pair.target), sorted(found.links), scores]))


def symmetrisations(count: str) -> None:
    """Print the links of random pairs of directions by all methods."""
    from align.evaluation.dialects import ALL_METHODS

    draw = random.Random(65)
    for number in range(int(count)):
        rows, columns = draw.randrange(1, 12), draw.randrange(1, 12)
        every = [(i, j) for i in range(rows) for j in range(columns)]
        sides = [frozenset(draw.sample(every, draw.randrange(0, min(len(every), 2 * rows) + 1))) for _ in range(2)]
        for name in sorted(ALL_METHODS):
            print(number, name, sorted(ALL_METHODS[name](*sides)))


def counts(gold: str, *systems: str) -> None:
    """Print the integer counts of sentences, and what they add up to."""
    import align

    sentences = align.read_gold(gold).pairs
    for system in systems:
        table = align.count_all([one.possible for one in align.read_hypotheses(system).pairs], sentences)
        print(system, float(align.aer(table.sum(0))))
        for row in table.tolist():
            print(*row)


def compat(name: str, source: str, target: str, count: str) -> None:
    """Print what the interfaces of other aligners answer."""
    lines = [lines_of(path, int(count)) for path in (source, target)]
    pairs = list(zip(*lines, strict=True))
    if name == "simalign":
        from align.compat.simalign import SentenceAligner

        aligner = SentenceAligner(matching_methods="mai", device="cpu")
        every = SentenceAligner(matching_methods="fr", device="cpu", forward="de-en")
        for one in pairs:
            print(json.dumps([aligner.get_word_aligns(*one), every.get_word_aligns(*(side.split() for side in one))]))
    elif name == "eflomal":
        from align.compat.eflomal import Aligner, calculate_priors

        kinds = [f"{kind}.{side}" for kind in ("links", "scores") for side in ("fwd", "rev")]
        outputs: Any = {kind.replace(".", "_filename_"): kind for kind in kinds}
        Aligner(device="cpu").align(lines[0], lines[1], **outputs)
        for counts in calculate_priors(*lines, *(lines_of(path, int(count)) for path in kinds[:2])):
            print(sorted(f"{key} {value}" for key, value in counts.items()))
    else:
        import numpy as np

        import align

        span: Any = namedtuple("span", "label, words")
        draw = np.random.default_rng(1)
        for _ in range(int(count)):
            matrix = draw.random((draw.integers(1, 9), draw.integers(1, 9)))
            print(sorted((int(i), int(j)) for i, j in align.soft_links(matrix)))
            rows, columns = matrix.shape
            scores = {(i, j): float(matrix[i, j]) for i in range(rows) for j in range(columns) if matrix[i, j] > 0.4}
            for one in align.project_labels([span("X", (i, i + 1)) for i in range(rows)], scores, rows, columns):
                window = one[2] or ()  # which older trees have alone, others in a tuple
                print(*one[:2], (window,) if window and isinstance(window[0], int) else window, one[3])


OPERATIONS: dict[str, Callable[..., None]] = {
    f"@{function.__name__.replace('_', '-')}": function
    for function in (copy, compare, kill, serve, translations, symmetrisations, counts, compat)
}


def steps(words: list[str]) -> Iterator[list[str]]:
    """Yield the command lines between ";"."""
    start = 0
    for n, word in enumerate([*words, ";"]):
        if word == ";":
            yield words[start:n]
            start = n + 1


def run_step(words: list[str]) -> int:
    """Run a command line or an operation in this process."""
    if words[0] in OPERATIONS:
        OPERATIONS[words[0]](*words[1:])
        sys.stdout.flush()
        return 0
    if "<" in words:
        os.dup2(os.open(words[-1], os.O_RDONLY), 0)
        words = words[:-2]
    return run_program(words)


def run_case(words: list[str], folder: Path, inputs: str, seconds: float) -> dict[str, Any]:
    """Run a case; return exit codes, output and files as text of one byte a character, and its time."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    outputs = {name: folder.with_name(f"{folder.name}.{name}") for name in ("out", "err")}
    codes, began = [], time.monotonic()
    os.chdir(folder)
    os.symlink(inputs, "in")
    for path in outputs.values():
        path.write_bytes(b"")
    for step in steps(words):
        if not (child := os.fork()):
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for number, name in ((1, "out"), (2, "err")):
                os.dup2(os.open(outputs[name], os.O_WRONLY | os.O_APPEND), number)
            code = 70
            try:
                code = run_step(step)
            except BaseException:
                import traceback

                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                break
            if time.monotonic() - began > seconds:
                os.killpg(child, signal.SIGKILL)
            time.sleep(0.002)
        codes.append(os.waitstatus_to_exitcode(status))
    tree = os.environ["PYTHONPATH"]
    texts = {name: path.read_bytes().decode("latin-1").replace(tree, "TREE") for name, path in outputs.items()}
    files = {name: data.decode("latin-1") for name, data in written().items()}
    os.chdir("/")
    return {"codes": codes, **texts, "files": files, "seconds": time.monotonic() - began}


def main() -> None:
    """Import what takes long, and run cases until the input ends."""
    folder, inputs, seconds = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    sys.path[:] = [path for path in sys.path if Path(path).resolve() != Path(__file__).parent]
    answers = os.fdopen(os.dup(1), "w")
    import align

    expected = os.environ["PYTHONPATH"]
    if not os.path.realpath(align.__file__).startswith(os.path.realpath(expected) + os.sep):
        raise SystemExit(f"{align.__file__} is not in {expected}")
    names = [
        "torch",
        "tokenizers",
        "sentencepiece",
        "pyarrow.parquet",
        "scipy.optimize",
        "scipy.stats",
        "jinja2",
        "eflomal",
    ]
    every = (module.name for module in pkgutil.walk_packages(align.__path__, "align.", lambda name: None))
    for name in [*names, *(n for n in every if not re.search(r"_|analysis|training|baseline|plugin|ray|notebook", n))]:
        with contextlib.suppress(Exception):  # of a library that is missing, or a program
            importlib.import_module(name)
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(run_case(json.loads(line), folder / "case", inputs, seconds)), file=answers, flush=True)


if __name__ == "__main__":
    main()
