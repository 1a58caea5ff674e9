"""`extract-align models describe`: store how a model's text is prepared, and show what is known about the model."""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, fields, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, get_args

from align.cli.args import ModelArgs, RunArgs
from align.cli.common import Progress, open_output, run, say
from align.cli.options import add_group, argument, new_parser, option, read_group
from align.cli.parser import Parser
from align.core.backend import Recorder, StateRecorder
from align.core.consistency import CHOOSING_PAIRS, MIN_PAIRS
from align.core.errors import ModelError
from align.core.formats import to_json
from align.core.types import Choice, Dtype, Place, Score, TextWarning
from align.io.checks import open_text
from align.io.output import existing_mode, replace_file
from align.io.reader import Input
from align.models.defaults import could_be_hub_name
from align.models.folder import BUNDLED, ModelFolder, find_model, hub_toml, of_template, override
from align.models.model_toml import BETWEEN, Cells, ModelOptions, format_model_toml, read_model_toml
from align.models.preprocess import CASES, SUBWORDS, TOKENIZERS

if TYPE_CHECKING:
    from align.core.aligner import Aligner

PROGRAM = "extract-align models"

SUMMARY = "store how a model's text is prepared, and show the model"

EXAMPLES = """examples:
  extract-align models   the bundled models and their folders
  extract-align models describe de-en   languages, layers, heads, and how its text is prepared
  extract-align models describe wmt/checkpoint_best.pt --dictionaries data-bin/wmt --tokenizer moses
  extract-align models describe Tower --template tower --source-lang de --target-lang en -s a.de -t a.en   heads, too
  extract-align models describe google-t5/t5-small --source-prefix 'translate English to German: '
  extract-align models describe intfloat/multilingual-e5-base --source-prefix 'query: '
"""


@dataclass(frozen=True)
class DescriptionArgs:
    """How a model's text is prepared, and a text to choose layers and heads by."""

    TITLE: ClassVar = "description"

    model: str = argument(metavar="MODEL", help="a folder, file or hub name, or a bundled model")
    case: str | None = option(choices=CASES, help="whether the model reads lower-case text (default: keep)")
    tokenizer: str | None = option(
        choices=tuple(TOKENIZERS),
        metavar="NAME",
        help=f"tokeniser of the training text: {', '.join(TOKENIZERS)} (default: none)",
    )
    subwords: str | None = option(
        choices=tuple(SUBWORDS),
        help="how words are split; subword-nmt-vocabulary: pieces that the dictionary lacks are split further, as with "
        "subword-nmt's --vocabulary; none: lines consist of the model's pieces (default: by the files found)",
    )
    subword_files: Sequence[Path] | None = option(
        "--subwords-file",
        action="append",
        metavar="FILE",
        type=Path,
        help="sentencepiece model or BPE codes of both sides; given twice: the source's, then the target's. It is "
        "copied into the model's folder",
    )
    dictionaries: Path | None = option(
        reads=True, metavar="DIR", type=Path, help="folder of dict.LANG.txt, which are copied into the model's"
    )
    source_prefix: str | None = option(
        metavar="TEXT",
        help="text before each source, such as T5's `translate English to German: `; in an encoder before both sides, "
        "such as E5's `query: `. Its words count as NULL",
    )
    source: str | None = option(
        "-s",
        metavar="FILE",
        help=f"source sentences; with -t: store the layers and heads that their first {CHOOSING_PAIRS:,} pairs choose "
        "by lexical consistency; every text is then read there, in a multilingual model every text of these languages",
    )
    target: str | None = option("-t", metavar="FILE", help="target sentences")
    heads: str | None = option(
        writes=True,
        metavar="FILE",
        help="write a list of all heads, the most consistent first: layer, head, lexical consistency, position; named "
        ".json: their token alignment scores for simultaneous translation, counted from 0; named .bin: a copy of a "
        "CTranslate2 model, which returns the attention of the layer whose heads are the most consistent together",
    )


def build_parser() -> Parser:
    """Return the parser of `describe`."""
    parser = new_parser(
        f"{PROGRAM} describe",
        "Store how a model's text is prepared, in model.toml in its folder (for a name on the Hugging Face hub, in "
        "the user's configuration), and show the model. Without options it stores nothing.",
        EXAMPLES,
    )
    add_group(parser, DescriptionArgs)
    add_group(parser, ModelArgs, "model", only=("source_lang", "target_lang", "template"))
    add_group(parser, RunArgs, only=("device", "dtype"))
    return parser


def describe(args: DescriptionArgs, options: ModelOptions, device: str = "auto", dtype: Dtype = "float32") -> None:
    """Print what the model is, and store the options, and layers and heads, once they have proved right."""
    from align.models.load import load

    aligner = load(args.model, options=options, device=device, dtype=dtype)
    forward = aligner.forward
    recorder = forward.recorder
    calibration: Cells = {}
    folder = find_model(args.model, options)
    heads, is_encoder = b"", isinstance(recorder, StateRecorder)
    if is_encoder and args.heads:
        raise ModelError("--heads needs a model with attention to a source, not an encoder", file=args.model)
    if Path(args.heads or "").suffix == ".bin" and folder.backend != "ctranslate2":
        raise ModelError("--heads FILE.bin needs a CTranslate2 model", file=args.model)
    calibrations = folder.calibrations
    stores = options != ModelOptions() or args.source
    description = prepare(args.model, options, folder, recorder) if stores else None
    with open_output(args.heads) if args.heads else nullcontext() as file:
        if args.source and args.target:
            calibration, heads = choose_heads(args, aligner, folder.checkpoint)
        if description:
            path, copies, options = description
            store(path, copies, options, recorder, calibration)
            say(f"{PROGRAM}: {path} is written")
            calibrations = calibrations | read_model_toml(path)[1]
        if file:
            file.write(heads)
    cells = [
        f"{pair}: {position} {cell}".removeprefix(": ")
        for pair, stored in calibrations.items()
        for (score, position), cell in stored.items()
        if score == "norm"
    ]
    read = {"attention": f"{recorder.layers} decoder layers of {recorder.heads} heads"}
    read["stored"] = "\n".ljust(12).join(cells) or "no layers and heads"
    if is_encoder:
        layers = [cell.layer for cell in (calibration or forward.calibration).values()]
        read = {"states": f"{recorder.layers} layers, of which {layers[0] if layers else 'one'} is read"}
    limit = recorder.max_positions[0]
    rows = {
        "model": recorder.name,
        "languages": " to ".join(recorder.languages),
        **read,
        "positions": f"{limit:,} pieces of the prompt and the translation"
        if recorder.prompted
        else f"{limit:,} source and {recorder.max_positions[1]:,} target pieces",
        "text": recorder.text,
    }
    with open_output(None) as out:
        out.write("".join(f"{name:11}{value}\n" for name, value in rows.items()).encode())


def choose_heads(args: DescriptionArgs, aligner: Aligner, checkpoint: Path) -> tuple[Cells, bytes]:
    """Return the layers and heads that a text chooses, and what `--heads` asks for; warn of the text."""
    from align.core.choice import choose
    from align.core.stream import SideNames, encode
    from align.evaluation.heads import alignment_heads, best_layer, calibrate
    from align.models.ctranslate2.files import with_attention_of
    from align.models.divide import in_units

    assert args.source
    assert args.target
    forward, check, names, ending = aligner.forward, aligner.check, SideNames(), Path(args.heads or "").suffix
    recorder, null = forward.recorder, forward.settings.null
    with open_text(Input((args.source, args.target), parallel=True, blank=None)) as text:
        pairs = [*islice(text, CHOOSING_PAIRS)]
    sample = in_units(recorder, pairs)
    encoded = [item for pair in sample if (item := encode(recorder, pair, "blank")).pieces]
    if len(encoded) < MIN_PAIRS:
        raise ModelError(f"choosing layers and heads needs {MIN_PAIRS} pairs; got {len(encoded)}", file=args.source)
    assert check
    doubts = [*check.begin(forward, encoded, None, names), check.add(pairs)]
    for doubt in filter(None, doubts):
        warnings.warn(doubt, TextWarning, stacklevel=2)
    say(f"{PROGRAM}: choosing layers and heads by {len(encoded):,} pairs")
    heads = b""
    with closing(Progress(PROGRAM, expected=lambda: len(encoded))) as progress:
        if isinstance(recorder, StateRecorder):
            chosen = choose(forward.reader, encoded, forward.settings)
            calibration: Cells = {("norm", position): cell for position, cell in chosen.place.cells().items()}
        else:
            progress.begin("choosing …", passes=len(get_args(Score)))
            calibration, table = calibrate(recorder, encoded, null, forward.settings.position, progress.batch)
            heads = table.encode()
            place = Place(calibration.get(("norm", "input")), calibration.get(("norm", "output")))
            chosen = Choice(place, "chosen here")
    for doubt in check.begin(forward, encoded, chosen, names):
        if doubt not in doubts:
            warnings.warn(doubt, TextWarning, stacklevel=2)
    if ending == ".json":
        heads = (to_json(alignment_heads(recorder, encoded, chosen.place, null), indent=1) + "\n").encode()
    elif ending == ".bin":
        heads = with_attention_of(checkpoint, best_layer(recorder, encoded, null), recorder.heads)
    return calibration, heads


def prepare(
    model: str, options: ModelOptions, folder: ModelFolder, recorder: Recorder
) -> tuple[Path, dict[Path, bytes], ModelOptions]:
    """Return the path of model.toml, the content of files to copy, and the options, all checked; write no file."""
    copies = dict[Path, bytes]()
    root = folder.own_root.resolve()
    if root.is_relative_to(BUNDLED) or folder.backend == "encoder":
        raise ModelError("the description of a bundled model is fixed", file=model)
    given = options.source_lang, options.target_lang
    if any(given) and not all(given) and folder.backend == "huggingface":
        raise ModelError("one language is given; give --source-lang and --target-lang", file=model)
    if options.dictionaries or any(given):
        options = replace(options, source_lang=recorder.languages[0], target_lang=recorder.languages[1])
    if not os.path.exists(model) and could_be_hub_name(model):
        if options.dictionaries or options.subword_files:
            raise ModelError("a model of the hub has its own dictionaries and subwords", file=model)
        path = hub_toml(model)
        path.parent.mkdir(parents=True, exist_ok=True)
    else:
        path, subword_files = root / "model.toml", [Path(file) for file in options.subword_files or ()]
        dictionaries = map(folder.dictionary, recorder.languages) if options.dictionaries else ()
        for file in (*dictionaries, *subword_files):
            copied, content = root / file.name, file.read_bytes()
            if os.path.lexists(copied):
                if not copied.is_file() or copied.read_bytes() != content:
                    raise ModelError("another file has this name; remove it, or rename the new one", file=str(copied))
            elif copies.setdefault(copied, content) != content:
                raise ModelError("two files have this name", file=str(file))
        options = replace(
            options, dictionaries=None, subword_files=[root / file.name for file in subword_files] or None
        )
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    return path, copies, options


def store(path: Path, copies: dict[Path, bytes], options: ModelOptions, recorder: Recorder, chosen: Cells) -> None:
    """Add the options and the layers and heads to the model's model.toml; no other file is replaced."""
    stored, calibrations = read_model_toml(path)
    if calibrations != (calibrations := of_template(stored, options, calibrations)):
        say(f"{PROGRAM}: layers and heads of another template are removed from {path}: describe all directions again")
    # A multilingual model has layers and heads for each pair of languages.
    pair = BETWEEN.join(recorder.languages) if recorder.multilingual else ""
    calibrations[pair] = chosen or calibrations.get(pair, {})
    copies[path] = format_model_toml(override(stored, options), calibrations).encode()
    for name, content in copies.items():
        with replace_file(str(name), mode=existing_mode(str(name))) as out:
            out.write(content)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `extract-align models describe`."""
    parser = build_parser()
    args = parser.parse_command(arguments)
    if args.heads and args.source is None:
        parser.error("--heads requires -s and -t, whose links show how consistent each head is")
    parser.require_both(args, "-s/--source", "-t/--target")
    if len(args.subword_files or ()) > 2:
        parser.error("--subwords-file is given once for both sides, or twice: for the source, for the target")
    options = ModelOptions(**{field.name: getattr(args, field.name, None) for field in fields(ModelOptions)})
    return run(PROGRAM, lambda: describe(read_group(DescriptionArgs, args), options, args.device, args.dtype))
