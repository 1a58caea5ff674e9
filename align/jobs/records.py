"""Records of a job in `_run`: its settings and where it is read, and a record for each finished file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from align.core.errors import DataError
from align.core.types import Choice
from align.io.manifest import MAX_RECORD, Record, Run, differences, dump_json, load_json
from align.jobs.files import RUN, InputFile, digest_of, exists, is_taken, join, read_small, stat, whole_file

T = TypeVar("T")

RUN_FILE = f"{RUN}/run.json"
"""Description of the run, in a folder of results."""


def record_name(name: str) -> str:
    """Return the path of a file's record in the folder of results."""
    return f"{RUN}/{name}.json"


def bad_rows_name(name: str) -> str:
    """Return the path of the list of a file's unreadable rows in the folder of results."""
    return f"{RUN}/{name}.bad.jsonl"


def write_record(folder: str, name: str, record: Record) -> None:
    """Write the record of a file, which is finished once its output is there too."""
    _write(folder, record_name(name), asdict(record))


def read_record(folder: str, name: str) -> Record | None:
    """Read the record of a file; return None if there is none.

    Raises:
        DataError: the record cannot be read, or is invalid.
    """

    def read(content: Any) -> Record:
        record = Record.of(content)
        if len(record.inputs) != 1 or None in record.inputs or len(record.outputs) != 1:
            raise ValueError("not one input and one output")
        return record

    return _read(folder, record_name(name), read, f"remove it and {join(folder, name)} to have it done again")


def check_record(folder: str, file: InputFile, record: Record, signature: str, digests: bool = True) -> None:
    """Check that a finished file is the same as this job would produce from the current input.

    Args:
        folder: folder of the results.
        file: input file.
        record: record of the finished file.
        signature: signature of this job.
        digests: whether to read the output; else only its size is compared.

    Raises:
        DataError: the input or the output has changed, or another run made the output; lists what to remove.
    """
    output = join(folder, file.name)
    advice = f"remove {output} and {join(folder, record_name(file.name))} to have it done again"

    def refuse(place: str, message: str) -> DataError:
        return DataError(message, file=place, hint=advice)

    if changes := differences(record.run, {"signature": signature}):
        raise refuse(output, f"made by another run ({changes})")
    place, size, modified = record.inputs[0] or ()
    unchanged = (file.place, file.modified) == (place, modified)
    if file.size != size or not (unchanged or digest_of(file.place) == record.digest):
        raise refuse(file.place, f"has changed since {output} was made")
    if not exists(output):
        raise refuse(output, "is not a regular file")
    ((_, size, digest),) = record.outputs
    if stat(output).size != size or (digests and digest_of(output) != digest):
        raise refuse(output, "has been changed since it was made")


def open_run(
    folder: str,
    settings: Mapping[str, Any],
    choose: Callable[[], tuple[Choice, ...]],
    sign: Callable[[Sequence[Choice]], str],
    names: Sequence[str],
) -> Run:
    """Return the run that a folder describes; if there is none, choose layer and head and write the description.

    Args:
        folder: folder of the results.
        settings: settings of this run.
        choose: chooses where each direction is read, which takes a while.
        sign: returns the signature at these choices.
        names: names of all output files.

    Raises:
        DataError: the folder has other settings, or has files of these names that are not of a job.
    """
    if run := read_run(folder, settings, names):
        return run
    choices = choose()
    run = Run(settings, choices, sign(choices))
    _write(folder, RUN_FILE, asdict(run))
    return run


def read_run(folder: str, settings: Mapping[str, Any], names: Sequence[str]) -> Run | None:
    """Read the description of the run in a folder; return None if there is none yet.

    Args:
        folder: folder of the results.
        settings: settings of this run.
        names: names of all output files.

    Raises:
        DataError: the folder has other settings, or has files of these names that are not of a job.
    """
    run = _read(folder, RUN_FILE, Run.of, f"remove {folder} to start again")
    if run is None:
        if there := next((name for name in names if is_taken(join(folder, name))), None):
            hint = "take another folder, or remove it"
            raise DataError("exists already, and no job wrote it", file=join(folder, there), hint=hint)
        return None
    if changes := differences(run.settings, settings):
        hint = "give the same options, or take another folder"
        raise DataError(f"its files are of another run ({changes})", file=folder, hint=hint)
    return run


def _read(folder: str, name: str, read: Callable[[Any], T], advice: str) -> T | None:
    """Read a file in `_run`; return None if there is none."""
    data = read_small(join(folder, name), MAX_RECORD)
    if data is None:
        return None
    try:
        return read(load_json(data))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        raise DataError(
            "is not a record of this program, or is damaged", file=join(folder, name), hint=advice
        ) from None


def _write(folder: str, name: str, content: Any) -> None:
    with whole_file(folder, name) as out:
        out.write(dump_json(content))
