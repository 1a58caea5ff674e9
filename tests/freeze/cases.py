"""The cases: by group, names and words (see `driver.py` for their form)."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

Cases = dict[str, list[str]]

SHORT = {
    "TOY": "-m in/models/fairseq-trained --device cpu --threads 1",
    "CPU": "--device cpu --threads 1",
    "BLANK": "--bad-lines blank",
    "TEXT": "-s in/text.de -t in/text.en",
    "FAST": "-m de-en-fast -s in/text.de -t in/text.en --bad-lines blank --device cpu --threads 1",
    "DEV": "-m de-en -s in/dev.de -t in/dev.en --bad-lines blank --device cpu --threads 1 --print-scores",
}
"""Words of command lines that stand for several."""

LANGUAGES = {
    "hub-nllb": "deu_Latn eng_Latn", "hub-mbart": "de_DE en_XX", "hub-m2m100": "de en", "hub-small100": "de en",
    "hub-opus-mt-tc-big-en-pt": "en por", "hub-madlad": "en de", "hf-m2m_100": "deu_Latn eng_Latn",
    "hf-mbart": "deu_Latn eng_Latn", "causal": "de en", "ct2-marian": "de en",
}  # fmt: skip
"""Source and target of models that name none, by the beginning of their names."""

REAL = ("ct2-float32", "ct2-int8", "hf-of", "shared", "student", "hub-full-size")
"""Models that read real text; others are toys."""


def model_options(name: str) -> tuple[str, str]:
    """Return the options that name a model and its languages, and the text for it."""
    codes = next((codes.split() for start, codes in LANGUAGES.items() if name.startswith(start)), None)
    options = f"-m in/models/{name}" + (f" --source-lang {codes[0]} --target-lang {codes[1]}" if codes else "")
    return options, "text" if name.startswith(REAL) else "toy"


def models(inputs: Path) -> list[str]:
    """Return the names of the models that were built."""
    return sorted(path.name for path in (inputs / "models").iterdir())


def split(line: str) -> list[str]:
    """Return the words of a command line."""
    return [part for word in shlex.split(line) for part in SHORT.get(word, word).split(" ")]


def listed(name: str) -> Cases:
    """Return the cases of a file of command lines, by their own text."""
    return {line: split(line) for line in Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines()}


def links(inputs: Path) -> Cases:
    """Every kind of model; formats, buffers, workers, words, scores and positions of bundled ones."""
    found = listed("links.txt")
    for name in models(inputs):
        options, text = model_options(name)
        source, target = ("en", "de") if name.startswith("student-enpt") else ("de", "en")
        found[name] = split(f"{options} -s in/{text}.{source} -t in/{text}.{target} -f jsonl CPU BLANK")
    return found


SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
"""When a run is killed: when it has written a share of the bytes."""


def kills(inputs: Path) -> Cases:
    """Runs that are killed at five points each, and go on; both must end with the bytes of a run without a stop."""
    runs = {
        "links": "TOY in/long.tsv --buffer 16 --resume -o {}",
        "two ways": "TOY --reverse-model in/models/fairseq-back in/long.tsv --buffer 16 --print-scores --resume -o {}",
        "jsonl": "TOY -s in/long.de -t in/long.en --buffer 30 -f jsonl --position both --resume -o {}.gz",
        "translations": "TOY -s in/toy.de --translate --beam 1 --buffer 16 --bad-lines blank --resume -o {}",
        "scores": "score TOY in/long.tsv --resume -o {}.xz",
        "bundled": "-m de-en-fast in/valid.tsv --device cpu --threads 1 --buffer 16 -f giza --resume -o {}",
        "jobs": "jobs in/toy.tsv in/valid.tsv in/small.tsv in/long.tsv TOY --bad-lines blank -o {}",
        "tables": "jobs in/rows.jsonl in/rows.parquet --columns de,en TOY -o {}",
    }  # fmt: skip
    found = {}
    for name, command in runs.items():
        end = next((end for end in (".gz", ".xz") if end in command), "")
        again = command.format("killed")
        points = (f"@kill {share} full{end} {again} ; {again} ; @compare full{end} killed{end}" for share in SHARES)
        found[name] = split(" ; ".join([command.format("full"), *points]))
    return found


def translations(inputs: Path) -> Cases:
    """Translations of every kind of model by one and by five hypotheses, with links."""
    found = {}
    for name in ["de-en", "en-de", *models(inputs)]:
        bundled = not (inputs / "models" / name).exists()
        count = "100" if bundled or name.startswith(REAL) else "300"
        options, text = model_options(name)
        side = "en" if name.startswith(("en-de", "student-enpt")) else "de"
        place = name if bundled else f"in/models/{name}"
        text = "valid" if text == "text" or bundled else "toy"
        codes = zip(("source", "target"), options.split()[3::2], strict=False)
        words = [place, f"in/{text}.{side}", count, *(f"{side}_lang={code}" for side, code in codes)]
        found[name] = ["@translations", *words]
    return found


def http(inputs: Path) -> Cases:
    """Requests to a service, and calls of the interfaces of other aligners."""
    ways = (
        "-m de-en-fast --request-pairs 50 CPU",
        "-m de-en --reverse-model en-de CPU",
        "TOY --request-pairs 30 --queue-pairs 60",
    )
    return {way: split(f"@serve in/requests.jsonl {way}") for way in ways}


def compat(inputs: Path) -> Cases:
    """Calls of the interfaces of other aligners."""
    return {name: ["@compat", name, "in/small.de", "in/small.en", "30"] for name in ("simalign", "eflomal", "arrays")}


def counts(inputs: Path) -> Cases:
    """Integer counts of errors, and random symmetrisations."""
    found = [
        f"eval -g in/test.wa.nonullalign in/{path.name} --hyp-format 0-based --per-sentence -f tsv"
        for path in sorted(inputs.glob("*.talp"))
    ]
    return {
        line: split(line)
        for line in ("@counts in/dev.gold in/dev.links in/dev2.links in/dev.jsonl", "@symmetrisations 1000", *found)
    }


GROUPS: dict[str, Callable[[Path], Cases]] = {
    "links": links,
    "commands": lambda _: listed("commands.txt"),
    "tags": lambda _: listed("tags.txt"),
    "kills": kills,
    "translations": translations,
    "counts": counts,
    "http": http,
    "compat": compat,
}

SPEED = {
    "start": ["--version"],
    "start with a model": ["-m", "de-en-fast", "in/one.tsv", *split("CPU")],
    "combine": split("combine in/giza.talp in/giza.reverse.talp --reverse-swapped"),
    "fast, 1,000 lines": ["-m", "de-en-fast", "in/speed.tsv", *split("CPU")],
    "toy, 800 lines": split("TOY in/long.tsv"),
}
