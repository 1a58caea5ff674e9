"""A small archive like those that fairseq publishes: the same files, formats and settings as wmt19.de-en."""

from __future__ import annotations

import io
import pickle
import tarfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from sacremoses import MosesTokenizer
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from tests import toy

SMALL_BIG = {
    "arch": "transformer_wmt_en_de_big", "share_all_embeddings": True, "encoder_ffn_embed_dim": 32,
    "share_decoder_input_output_embed": True, "max_source_positions": 1024, "max_target_positions": 1024,
}  # fmt: skip
"""The published models' settings that are told from weights, but narrow; the encoder's inner layer is the wider one."""


def save_archive(archive: Path, languages: tuple[str, str], text: Mapping[str, Sequence[str]]) -> None:
    """Write ARCHIVE.tar.gz with a folder of its name: bpecodes, dict.LANG.txt of both sides, model.pt.

    Args:
        archive: its name ends in .tar.gz.
        languages: of the source and the target.
        text: lines by language, for the codes and the dictionary, which both sides share.
    """
    tokens = [
        token
        for language in languages
        for line in text[language]
        for token in MosesTokenizer(language).tokenize(line, aggressive_dash_splits=True, escape=True)
    ]
    learned = io.StringIO()
    learn_bpe(io.StringIO(" ".join(tokens)), learned, num_symbols=400, min_frequency=2)
    codes = learned.getvalue()
    counts = Counter(BPE(io.StringIO(codes)).segment_tokens(tokens))
    pieces = [piece for piece, _ in counts.most_common()]
    padding = [f"madeupword{number:04}" for number in range(-(len(pieces) + 4) % 8)]
    dictionary = "".join(f"{piece} {counts[piece]}\n" for piece in [*pieces, *padding]).encode()
    merges = codes.splitlines()[1:]
    fast = "".join(f"{merge} {9000 - rank}\n" for rank, merge in enumerate(merges)).encode()
    files = {"bpecodes": fast, "model.pt": _checkpoint([*pieces, *padding], languages)}
    files |= {f"dict.{language}.txt": dictionary for language in languages}
    with tarfile.open(archive, "w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(f"{archive.name.removesuffix('.tar.gz')}/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def _checkpoint(pieces: list[str], languages: tuple[str, str]) -> bytes:
    shape = {name: value for name, value in SMALL_BIG.items() if name != "arch"}
    model, args = toy.build_model(shape, pieces, pieces)
    args.arch, args.source_lang, args.target_lang = SMALL_BIG["arch"], *languages
    state = {"args": args, "model": {name: weight.half() for name, weight in model.state_dict().items()}}
    stream = io.BytesIO()
    torch.save(state, stream, _use_new_zipfile_serialization=False, pickle_protocol=2, pickle_module=pickle)
    return stream.getvalue()
