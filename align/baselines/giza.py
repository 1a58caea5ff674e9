"""GIZA++ (Och and Ney 2003), or MGIZA, its multi-threaded version: from text to links by IBM model 4."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from align.baselines.process import Files, Job, find_program, open_text, run_side_by_side
from align.evaluation.link_formats import parse_a3

_OPTIONS = (
    *("-m1", "5", "-m2", "0", "-mh", "5", "-m3", "3", "-m4", "3"),
    *("-p0", "0.999", "-nsmooth", "4", "-model4smoothfactor", "0.4", "-nodumps", "1", "-onlyaldumps", "1"),
)
"""Five iterations of IBM model 1 and of the HMM, three of models 3 and 4, and the other settings of Moses."""


def find_giza() -> Callable[[Job], Files]:
    """Return the function that aligns with MGIZA's programs on PATH, or else with those of GIZA++."""
    alternatives = (("mgiza", "mkcls", "snt2cooc"), ("GIZA++", "mkcls", "snt2cooc.out"))
    for names in alternatives:
        giza, mkcls, snt2cooc = map(find_program, names)
        if giza and mkcls and snt2cooc:
            return partial(_giza, giza, mkcls, snt2cooc)
    programs = ", or ".join(map(", ".join, alternatives))
    raise ModuleNotFoundError(f"GIZA++ is not installed: put {programs} on PATH")


def _giza(giza: str, mkcls: str, snt2cooc: str, job: Job) -> Files:
    """Make vocabularies, word classes and co-occurrences, then train and align both directions in parallel."""
    multi = Path(giza).name == "mgiza"
    vocabularies = [_vocabulary(path) for path in job.text]
    classes = [
        [mkcls, "-c50", "-n2", f"-p{path}", f"-V{vocabulary}.classes", "opt"]
        for path, vocabulary in zip(job.text, vocabularies, strict=True)
    ]
    run_side_by_side("mkcls", classes, job)
    output = job.folder / "forward", job.folder / "reverse"
    cooccurrences = [path.with_suffix(".cooc") for path in output]
    counting: list[list[str | Path]] = []
    training: list[list[str | Path]] = []
    for reverse, (path, counts) in enumerate(zip(output, cooccurrences, strict=True)):
        source, target = vocabularies[reverse], vocabularies[1 - reverse]
        text, (first, second) = path.with_suffix(".snt"), job.text[:: -1 if reverse else 1]
        with open_text(first) as sources, open_text(second) as targets, open_text(text, "w") as stream:
            stream.writelines(f"1\n{source_line}{line}" for source_line, line in zip(sources, targets, strict=True))
        counting.append([snt2cooc, *([counts] if multi else []), source, target, text])
        files: list[str | Path] = ["-S", source, "-T", target, "-C", text, "-CoocurrenceFile", counts]
        threads = ["-ncpus", str(max(1, job.threads // 2))] if multi else []
        training.append([giza, *files, "-o", f"{path}.giza", *_OPTIONS, *threads])
    run_side_by_side(Path(snt2cooc).name, counting, job, None if multi else cooccurrences)
    run_side_by_side(Path(giza).name, training, job)
    for reverse, path in enumerate(output):
        _collect(path, bool(reverse))
    return output


def _vocabulary(path: Path) -> Path:
    """Write GIZA++'s list of a text's words: number, word (which is the same number here), count."""
    with open_text(path) as lines:
        counts = Counter(word for line in lines for word in line.split())
    output = path.with_suffix(path.suffix + ".vcb")
    with open_text(output, "w") as stream:
        stream.writelines(f"{word} {word} {counts[word]}\n" for word in sorted(counts, key=int))
    return output


def _collect(path: Path, reverse: bool) -> None:
    """Write the links of all of MGIZA's parts in the order of the text; of a duplicate pair the last ones."""
    lines: dict[int, str] = {}
    for part in sorted(path.parent.glob(f"{path.name}.giza.A3.final*")):
        try:
            with open_text(part) as stream:
                for three in zip(*[(line.rstrip("\n") for line in stream)] * 3, strict=True):
                    number, links = parse_a3(*three)
                    ordered = ((j - 1, i - 1) if reverse else (i - 1, j - 1) for i, j in sorted(links))
                    lines[number] = " ".join(f"{i}-{j}" for i, j in ordered)
        except ValueError as error:
            raise ValueError(f"giza wrote a file that cannot be read, {part.name}: {error}") from None
    missing = next((number for number in range(1, len(lines) + 1) if number not in lines), None)
    if missing:
        raise ValueError(f"giza left out pair {missing:,} of its training text")
    with open_text(path, "w") as stream:
        stream.writelines(f"{lines[number]}\n" for number in range(1, len(lines) + 1))
