"""What a job knows of itself, in `_run`: what is run and where it is read, and a record for each finished file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from align.core.errors import DataError, Remedy
from align.core.types import Choice
from align.io.manifest import MAX_RECORD, Record, Run, differences, dump_json, load_json
from align.jobs.files import RUN, InputFile, digest_of, exists, join, read_small, stat, whole_file

T = TypeVar("T")

NOTE = f"{RUN}/run.json"
"""What is run, in a folder of results."""


def record_name(name: str) -> str:
    """Where the record of a file is, in the folder of results."""
    return f"{RUN}/{name}.json"


def begun_name(name: str) -> str:
    """Return the name of the note that this job has begun to write the output of a file."""
    return f"{RUN}/{name}.begun"


def bad_rows_name(name: str) -> str:
    """Where the list of a file's rows that cannot be read is, in the folder of results."""
    return f"{RUN}/{name}.bad.jsonl"


def write_record(folder: str, name: str, record: Record) -> None:
    """Write the record of a file: from here on it is finished."""
    _write(folder, record_name(name), asdict(record))


def read_record(folder: str, name: str) -> Record | None:
    """The record of a file; None if it is not finished.

    Raises:
        DataError: it cannot be read, or is no record.
    """

    def read(content: Any) -> Record:
        record = Record.of(content)
        if len(record.inputs) != 1 or None in record.inputs or len(record.outputs) != 1:
            raise ValueError("not one input and one output")
        return record

    return _read(folder, record_name(name), read, "remove it, and the file is done again")


def check_record(folder: str, file: InputFile, record: Record, signature: str) -> None:
    """Check that a finished file is what the same job would make of the input today.

    Raises:
        DataError: the input or the output has changed since, or it was made otherwise; says what to remove.
    """
    output = join(folder, file.name)
    anew = f"remove {output} and {join(folder, record_name(file.name))} to have it done again"

    def refuse(place: str, what: str) -> DataError:
        return DataError(what, file=place, remedy=Remedy(anew.replace("{", "{{").replace("}", "}}")))

    if changes := differences(record.run, {"signature": signature}):
        raise refuse(output, f"made by another run ({changes})")
    place, size, modified = record.inputs[0] or ()
    unchanged = (file.place, file.modified) == (place, modified)
    if file.size != size or not (unchanged or digest_of(file.place) == record.digest):
        raise refuse(file.place, f"is not what {output} was made of")
    if not exists(output):
        raise refuse(output, "has gone, and its record has not")
    ((_, size, digest),) = record.outputs
    if stat(output).size != size or digest_of(output) != digest:
        raise refuse(output, "has been changed since it was made")


def open_run(
    folder: str,
    settings: Mapping[str, Any],
    choose: Callable[[], tuple[Choice, ...]],
    sign: Callable[[Sequence[Choice]], str],
    names: Sequence[str],
) -> Run:
    """What is run in a folder: what an earlier job has noted there, or else a choice that is made and noted now.

    Args:
        folder: of the results.
        settings: what is to be run.
        choose: where each direction is read, which takes a while.
        sign: the signature at these choices.
        names: of all the files that are to come there.

    Raises:
        DataError: the folder is of other settings, or has files of these names that are not of a job.
    """
    run = _read(folder, NOTE, Run.of, f"remove {folder} to begin anew")
    if run is None:
        if there := next((name for name in names if exists(join(folder, name))), None):
            remedy = Remedy("take another folder, or remove it")
            raise DataError("is there already, and not of a job like this", file=join(folder, there), remedy=remedy)
        choices = choose()
        run = Run(settings, choices, sign(choices))
        _write(folder, NOTE, asdict(run))
    if changes := differences(run.settings, settings):
        remedy = Remedy("give the same options, or take another folder")
        raise DataError(f"its files are of another run ({changes})", file=folder, remedy=remedy)
    return run


def _read(folder: str, name: str, read: Callable[[Any], T], advice: str) -> T | None:
    """What a file in `_run` says; None if there is none."""
    data = read_small(join(folder, name), MAX_RECORD)
    if data is None:
        return None
    try:
        return read(load_json(data))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        remedy = Remedy(advice.replace("{", "{{").replace("}", "}}"))
        raise DataError("is none of ours, or damaged", file=join(folder, name), remedy=remedy) from None


def _write(folder: str, name: str, content: Any) -> None:
    with whole_file(folder, name) as out:
        out.write(dump_json(content))
