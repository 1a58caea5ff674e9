"""Write a long result in shards, so that a run goes on after a stop: finished shards are kept until they are joined.

`FILE.parts` holds `run.json`, what the result depends on, and for each finished shard its lines, `00001`, its lists of
bad and of kept lines, `00001.bad` and `00001.kept`, and its marker, `00001.json`, which is written last.
`FILE.run.json` is a copy of `run.json` next to a complete result: by it the same command finds nothing left to do.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from typing import Any, BinaryIO

from align.core.errors import DataError
from align.core.types import Choice
from align.io.manifest import differences, dump_json, load_json
from align.io.output import PARTS, RECORD, beside, locked, open_output, replace_file
from align.io.signature import read_choice

BUFFERS = 5  # buffers in a shard
RUN = "run.json"


class Shards:
    """A result that is written in shards; a context, which joins them if it ends without an error.

    Args:
        path: the result.
        listing, kept: the lists of bad and of kept lines, if there are such.

    Attributes:
        folder: where the shards are.
        size: lines of a shard; 0 before `begin`.
        lines: lines in finished shards.
        counts: these lines, by what the writer counts.
        choices: layer and head of each direction in these lines.
        out: the current shard.
        listing, kept: its lists of bad and of kept lines.
        complete: whether the result is there already.
    """

    def __init__(self, path: str, listing: str | None = None, kept: str | None = None) -> None:
        self.folder, self.size, self.lines, self.complete = beside(path, PARTS), 0, 0, False
        self.counts: Counter[str] = Counter()
        self.choices: tuple[Choice, ...] = ()
        self._files = {end: name for end, name in (("", path), (".bad", listing), (".kept", kept)) if name}
        self._run: Mapping[str, Any] = {}
        self._held, self._open = ExitStack(), ExitStack()  # the lock, and the files of the current shard

    def begin(self, run: Mapping[str, Any], size: int) -> None:
        """Find the finished shards, and open the next one, unless the result is complete.

        Args:
            run: what the result depends on, by name: settings, inputs with their sizes and times.
            size: lines of a shard.
        """
        self._run, self.size = run, size
        path = self._files[""]
        if os.path.exists(path):
            self._compare(beside(path, RECORD), path)
            if missing := next((name for name in self._files.values() if not os.path.exists(name)), None):
                raise DataError(f"exists, but {missing} is missing", file=path, hint=anew(path))
            self.complete = True
            return
        if self._has_shards():
            self._compare(self._path(RUN), self.folder)
        else:
            _write(self._path(RUN), run)
        while os.path.exists(self._path(f"{self._number:05}.json")):
            marker = _read(self._path(f"{self._number:05}.json"))
            self.counts.update(marker["counts"])
            self.choices = tuple(map(read_choice, marker["choices"]))
            self.lines += size
        self._start()

    def save(self, counts: Mapping[str, int], choices: Sequence[Choice]) -> None:
        """Finish the current shard if all of its lines are written, and start the next one.

        Args:
            counts: the lines of this run, by what the writer counts.
            choices: layer and head of each direction, if they are known.
        """
        if sum(counts.values()) < self.lines + self.size:
            return
        self._open.close()
        before, self.counts = self.counts, Counter(counts)
        self.choices = tuple(choices) or self.choices
        marker = {"counts": self.counts - before, "choices": [asdict(choice) for choice in self.choices]}
        _write(self._path(f"{self._number:05}.json"), marker)
        self.lines += self.size
        self._start()

    def __enter__(self) -> Shards:
        path = self._files[""]
        if os.path.exists(path) and not os.path.exists(beside(path, RECORD)):
            raise DataError("exists, but has no record of its run", file=path, hint="remove it, or write elsewhere")
        os.makedirs(self.folder, exist_ok=True)
        self._held.enter_context(locked(self._path(".lock"), path))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        with self._held:
            self._open.__exit__(kind, error, trace)
            if self.size and not error and not self.complete:
                with ExitStack() as stack:
                    # The result appears last: without it the shards and the record are those of a run that goes on.
                    outs = [stack.enter_context(open_output(name)) for name in self._files.values()]
                    for number in range(1, self._number + 1):
                        for name, out in zip(self._names(number).values(), outs, strict=True):
                            with open(name, "rb") as shard:
                                shutil.copyfileobj(shard, out, 1 << 20)
                    _write(beside(self._files[""], RECORD), self._run)
                self.complete = True
            if self.complete or not self._has_shards():
                shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):  # Windows removes a lock when it is released, and so the folder after it
            os.rmdir(self.folder)

    def _has_shards(self) -> bool:
        return os.path.exists(self._path("00001.json"))

    @property
    def _number(self) -> int:
        """The number of the current shard."""
        return self.lines // self.size + 1

    def _names(self, number: int) -> dict[str, str]:
        return {end: self._path(f"{number:05}{end}") for end in self._files}

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _start(self) -> None:
        self._open = ExitStack()
        names = self._names(self._number).items()
        outs: dict[str, BinaryIO] = {end: self._open.enter_context(replace_file(name)) for end, name in names}
        self.out, self.listing, self.kept = outs[""], outs.get(".bad"), outs.get(".kept")

    def _compare(self, record: str, made: str) -> None:
        """Check that a record is of this run."""
        if changes := differences(_read(record), self._run):
            raise DataError(f"was made with other settings ({changes})", file=made, hint=anew(made))


def stamp(name: str) -> str:
    """Return the size of a file and the time of its last change, which tell whether it is still the same."""
    status = os.stat(name)
    return f"{status.st_size:,} bytes, changed at {status.st_mtime_ns / 1e9:.6f}"


def anew(made: str) -> str:
    """Return advice for a result, or shards, of another run."""
    return f"restore the settings, or remove {made} to start again"


def _read(path: str) -> dict[str, Any]:
    with open(path, "rb") as file:
        return load_json(file.read(), path)


def _write(path: str, content: Any) -> None:
    with replace_file(path) as out:
        out.write(dump_json(content))
