"""Model folders damaged at random, each loaded in a process of its own.

What must come of any: links, or one line that says what is wrong, and no signal. Time and memory are not judged: a
folder that takes more than the limits here is counted as costly.
"""

from __future__ import annotations

import os
import pickle
import random
import resource
import shutil
import signal
import struct
import sys
import time
import zipfile
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch

from align.models.fairseq.checkpoint import load_checkpoint
from tests.hostile import driver
from tests.hostile.code import repacked
from tests.hostile.driver import Case, Tried

SECONDS, BYTES = 20, 6 << 30
"""Limits of a process: seconds of computing, and bytes of address space beyond those of its parent."""

COSTLY = ("MemoryError", "allocate", "bad_alloc", "allocation")
"""Words of Python and libraries where memory ends."""

ALLOWED = (
    *("collections OrderedDict", "collections Counter", "argparse Namespace", "numpy ndarray", "numpy dtype"),
    *("numpy.core.multiarray _reconstruct", "numpy._core.multiarray scalar", "fairseq.meters AverageMeter"),
    *("builtins set", "builtins bytearray", "builtins complex", "_codecs encode", "torch Size", "torch device"),
    *("torch Tensor", "torch.nn.parameter Parameter"),
    *("torch per_tensor_affine", "torch float32", "torch int64", "torch strided", "torch FloatStorage"),
    *("torch.storage UntypedStorage", "torch HalfStorage", "torch._tensor _rebuild_from_type_v2"),
    *(f"torch._utils _rebuild_{what}" for what in ("tensor", "tensor_v2", "tensor_v3", "parameter", "sparse_tensor")),
    *(f"torch._utils _rebuild_{what}" for what in ("qtensor", "nested_tensor", "wrapper_subclass")),
    *(f"torch._utils _rebuild_{what}" for what in ("meta_tensor_no_storage", "parameter_with_state")),
    *(f"torch._utils _rebuild_device_tensor_from_{what}" for what in ("numpy", "cpu_tensor")),
)
"""Names that the restricted unpickler knows: a pickle may call them with any arguments."""


class Outcome(NamedTuple):
    """The result of a case: "links", "refused", "costly" or what was wrong, and its text."""

    what: str
    said: str


def values(rng: random.Random) -> Any:
    """Something that does not belong there."""
    return rng.choice(
        [
            *(None, True, False, 0, -1, 1, 2, 7, 1000, 2000, 65_536, 10**9, 10**20, -(10**20), 2**63, 4.0, 0.5, 1e308),
            *(
                float("nan"),
                float("inf"),
                "",
                "4",
                "a" * 10**6,
                "${oc.env:HOME}",
                "${model}",
                "[1,2",
                "../../etc/passwd",
            ),
            *("\x1b[31m\u202e", "\ud800", "None", "1e9", b"4", (), [], {}, (1, 2), [4] * 1000, {"layers": 10**9}),
            *({"encoder": {"layers": -1}}, Namespace(layers=3), torch.ones(2), torch.tensor(4), {"a": ["ha"]}),
            *([[[[]]]], Namespace(a=Namespace(b=[])), {1: 2}, {None: None}, {(1, 2): []}, set("ab"), 1j),
        ]
    )


def _damage_value(state: dict[str, Any], rng: random.Random) -> None:
    """Put something else in a place of the state, anywhere."""
    place: Any = state
    if rng.random() < 0.8:
        config = state["cfg"] if isinstance(state.get("cfg"), dict) else state
        model = config.get("model")
        place = vars(model) if isinstance(model, Namespace) and rng.random() < 0.8 else config
    for _ in range(6):
        keys = list(place) if isinstance(place, dict) else list(vars(place))
        key = rng.choice(keys) if keys and rng.random() < 0.95 else "more"
        inner = place.get(key) if isinstance(place, dict) else getattr(place, key, None)
        if isinstance(inner, (dict, Namespace)) and rng.random() < 0.7:
            place = inner
            continue
        new = values(rng)
        if isinstance(place, dict):
            place[key] = new
        elif isinstance(key, str):
            setattr(place, key, new)
        return


def damage_weight(state: dict[str, Any], rng: random.Random) -> None:
    """Make a weight something else, or call it something else."""
    weights = state["model"] if isinstance(state.get("model"), dict) else {"weight": torch.ones(2, 2)}
    name = rng.choice(list(weights))
    weight = weights[name]
    huge = torch.zeros(1).expand(10**6, 10**6)
    kinds: list[Callable[[], Any]] = [
        lambda: huge,
        lambda: torch.zeros(1).expand(10**9),
        lambda: weight.to(torch.complex64),
        lambda: weight.to_sparse(),
        lambda: torch.empty(10**6, 10**6, device="meta"),
        lambda: weight.bfloat16(),
        lambda: weight.double(),
        lambda: weight.int(),
        lambda: torch.quantize_per_tensor(weight.float(), 0.1, 0, torch.qint8),
        lambda: weight.reshape(-1),
        lambda: weight[:1],
        lambda: torch.cat([weight, weight]),
        lambda: weight * float("nan"),
        lambda: torch.nn.Parameter(weight.float()),
        lambda: torch.tensor(3.0),
        lambda: values(rng),
    ]
    action = rng.randrange(6)
    if action < 3:
        weights[name] = rng.choice(kinds)()
    elif action == 3:
        del weights[name]
    elif action == 4:
        names = [name.replace("0", "1"), "encoder.layers.7.x", "a" * 10**5, 3, (1,), None, "encoder.layers.x.y", ""]
        new: Any = rng.choice(names)
        weights[new] = weights.pop(name)
    else:
        for number in range(rng.choice([1, 50, 3000])):
            weights[f"{rng.choice(['encoder', 'decoder'])}.layers.{number}.fc1.bias"] = torch.zeros(1)


def random_pickle(rng: random.Random) -> bytes:
    """A pickle that calls what it may, with whatever it has."""
    out = [b"\x80\x02"]

    def push(depth: int) -> bytes:
        kind = rng.randrange(12 if depth < 5 else 7)
        if kind == 0:
            return b"K" + bytes([rng.randrange(256)])
        if kind == 1:
            return b"J" + struct.pack("<i", rng.choice([-1, 2**31 - 1, -(2**31), 10**6, 0]))
        if kind == 2:
            text = rng.choice([b"storage", b"f4", b"cpu", b"0", b"O", b"model", b"utf8", b"|O8", b"__setstate__"])
            return b"X" + struct.pack("<I", len(text)) + text
        if kind == 3:
            return rng.choice([b"N", b"\x88", b"\x89", b")", b"]", b"}", b"G\x7f\xf0" + b"\0" * 6])
        if kind in (4, 5, 6):
            module, name = rng.choice(ALLOWED).split()
            return f"c{module}\n{name}\n".encode()
        if kind == 7:
            return b"(" + b"".join(push(depth + 1) for _ in range(rng.randrange(5))) + b"t"
        module, name = rng.choice(ALLOWED).split()
        arguments = b"(" + b"".join(push(depth + 1) for _ in range(rng.randrange(7))) + b"t"
        call = f"c{module}\n{name}\n".encode() + arguments + rng.choice([b"R", b"\x81"])
        return call + (push(depth + 1) + b"b" if kind > 9 else b"")

    out += [push(0) for _ in range(rng.randrange(1, 4))]
    return b"".join(out) + b"."


def damage_bytes(path: Path, rng: random.Random) -> None:
    """Change a file's bytes: a few of them, its end, or all."""
    content = bytearray(path.read_bytes())
    action = rng.randrange(7)
    if action == 0:
        for _ in range(rng.randrange(1, 30)):
            content[rng.randrange(len(content))] = rng.randrange(256)
    elif action == 1:
        del content[rng.randrange(len(content)) :]
    elif action == 2:
        start = rng.randrange(len(content))
        content[start:start] = content[: rng.randrange(1, 2000)]
    elif action == 3:
        start = rng.randrange(len(content))
        del content[start : start + rng.randrange(1, 200)]
    elif action == 4:
        content = bytearray(rng.randbytes(rng.choice([0, 1, 100, 10_000])))
    elif action == 5:
        content = content * rng.randrange(2, 40)
    else:
        content = bytearray(rng.choice([b"[" * 10**6, b"\n" * 10**7, b"a 1\n" * 10**6, b"\0" * 10**7, b"a" * 10**7]))
    path.write_bytes(content)


def _damage_sentencepiece(folder: Path, rng: random.Random) -> None:
    """Real sentencepiece models with bytes of them changed."""
    from align.models.folder import BUNDLED

    for language in ("de", "en"):
        shutil.copy(BUNDLED / "de-en" / f"{language}.spm", folder)
        damage_bytes(folder / f"{language}.spm", rng)


TOML = (
    "[" * 50_000, "a = " + "[" * 5000, "a" * 10**7, "[text]\ncase = 3", "calibration = 3",
    "[calibration.input]\nnorm = 4",
    *(f"[calibration.input]\nnorm = {{layer = {n}, head = {h}}}" for n in ("0", "-1", "inf", "1e49", '"x"', "10_000")
      for h in ("1", '"all"', "0", "-3", "nan", "[]")),
    "source = 3", 'source = ".."', "[text]\nsubwords = 'none'\ntokenizer = 'moses'", "\ud800", "source = 1979-05-27",
)  # fmt: skip


def _damage_toml(folder: Path, rng: random.Random) -> None:
    text = rng.choice(['source = "de"\ntarget = "en"\n', ""]) + rng.choice(TOML)
    (folder / "model.toml").write_bytes(text.encode("utf-8", "surrogatepass"))


def _damage_subwords(folder: Path, rng: random.Random) -> None:
    """Files that are not subword models, or odd ones."""
    texts = [
        "#version: 9999.9\na b\n",
        " b\na b\n",
        "a b c\n",
        "a b\n" * 10**5,
        "#version:\na b\n",
        "",
        "a  b\n",
        "a\tb\n",
    ]
    name = rng.choice(["codes.{}", "{}.spm", "bpe.codes"])
    for language in ("de", "en"):
        content = rng.choice(texts).encode() if rng.random() < 0.7 else rng.randbytes(rng.randrange(5000))
        (folder / name.format(language)).write_bytes(content)


PATHS = ("checkpoint.pt", "dict.de.txt", "dict.en.txt", "model.toml", "de.spm", "codes")


def damage_paths(folder: Path, rng: random.Random, names: Sequence[str] = PATHS) -> None:
    """One of these files becomes something else than a file."""
    path = folder / rng.choice(names)
    path.unlink(missing_ok=True)
    kind = rng.randrange(4)
    if kind == 0:
        path.mkdir()
    elif kind == 1:
        os.mkfifo(path)
    else:
        path.symlink_to(
            rng.choice([path.name, "/dev/zero", "/proc/self/mem", "/proc/self/environ", "/etc/passwd", "gone"])
        )


def deflated(checkpoint: Path, more: bytes) -> None:
    """Compress a checkpoint's records, and put one more among them."""
    with zipfile.ZipFile(checkpoint) as old:
        records = {record.filename: old.read(record) for record in old.infolist()}
    with zipfile.ZipFile(checkpoint, "w", zipfile.ZIP_DEFLATED) as new:
        for name, content in {**records, "archive/data/999": more}.items():
            new.writestr(name, content)


WAYS = ("value",) * 4 + ("weight",) * 2 + ("bytes",) * 2 + ("pickle", "toml", "subwords", "paths", "spm")
"""The ways in which folders are damaged, some more often than others."""


def damage(folder: Path, rng: random.Random) -> str:
    """Damage a sound model folder in one of these ways, and return in which."""
    way = rng.choice(WAYS)
    checkpoint = folder / "checkpoint.pt"
    if way in ("value", "weight"):
        state = load_checkpoint(checkpoint)
        for _ in range(rng.choice([1, 1, 2, 5])):
            (_damage_value if way == "value" else damage_weight)(state, rng)
        try:
            torch.save(state, checkpoint)
        except (RuntimeError, pickle.PicklingError, AttributeError, UnicodeError):
            return "unsaved"
    elif way == "pickle":
        content = random_pickle(rng)
        checkpoint.write_bytes(content) if rng.random() < 0.3 else repacked(checkpoint, content)
    elif way == "bytes":
        damage_bytes(folder / rng.choice(["checkpoint.pt", "checkpoint.pt", "dict.de.txt", "dict.en.txt"]), rng)
    else:
        functions = {
            "toml": _damage_toml,
            "subwords": _damage_subwords,
            "paths": damage_paths,
            "spm": _damage_sentencepiece,
        }
        functions[way](folder, rng)
    return way


def load_folder(folder: Path, scratch: Path, languages: tuple[str, str] = ("de", "en")) -> Outcome:
    """Align a line with a model folder in a child process, and judge what comes of it."""
    sys.stdout.flush()
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        _align_in_child(folder, scratch, languages)
    deadline = start + 10 * SECONDS
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.005)
    said = (scratch / "stderr").read_text(encoding="utf-8", errors="replace")
    links = (scratch / "stdout").read_bytes()
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGXCPU or (code not in (0, 1) and any(word in said for word in COSTLY)):
        what = "costly"
    elif os.WIFSIGNALED(status):
        what = f"signal {os.WTERMSIG(status)}"
    elif "Traceback" in said or (os.WEXITSTATUS(status) not in (0, 1)):
        what = f"traceback or exit code {os.WEXITSTATUS(status)}"
    elif os.WEXITSTATUS(status) == 0:
        what = "links" if links.count(b"\n") == 1 else "not one line"
    else:
        what = "refused" if "error: " in said and len(said) < 5000 and not links else "no message"
    return Outcome(what, said)


def _align_in_child(folder: Path, scratch: Path, languages: tuple[str, str]) -> None:
    """`extract-align -q -m FOLDER` on one line; never returns."""
    code = 99
    try:
        from align.cli import extract

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + BYTES,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, 2 * SECONDS))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        torch.set_num_threads(1)  # a test runner's other threads stay behind
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(scratch / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
        source, target = os.pipe()
        os.write(target, b"das haus ist alt ||| the house is old\n")
        os.close(target)
        os.dup2(source, 0)
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")  # not a test runner's
        os.chdir(folder)
        os.environ.pop("RUST_BACKTRACE", None)  # a library's own long stories of what it would not read
        given = ["--source-lang", languages[0], "--target-lang", languages[1]]
        sys.argv = ["extract-align", "-q", "-m", str(folder), *given]
        code = extract.main()
        sys.stdout.flush()
    except SystemExit as stop:
        code = int(stop.code or 0)
    except BaseException:
        import traceback

        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


def folder_case(
    sound: Mapping[str, Path],
    scratch: Path,
    damaged: Callable[[Path, random.Random], str] = damage,
    languages: Mapping[str, tuple[str, str]] | None = None,
) -> Case:
    """Return what damages one of the sound folders and loads it.

    Args:
        sound: small model folders, by what they are called.
        scratch: an empty folder to work in.
        damaged: damages a folder, and returns how.
        languages: by the name of a folder, those that it needs, if not German and English.
    """
    from align.training.compat import install

    install()
    import fairseq.models  # noqa: F401  (once, before any fork)

    import align.models.load  # noqa: F401

    torch.set_num_threads(1)
    folder = scratch / "folder"

    def keep(place: Path) -> None:
        shutil.copytree(folder, place, symlinks=True, dirs_exist_ok=True)

    def case(rng: random.Random) -> Tried:
        kind = rng.choice(sorted(sound))
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(sound[kind], folder)
        way = damaged(folder, rng)
        outcome = load_folder(folder, scratch, (languages or {}).get(kind, ("de", "en")))
        # the line itself, where a model is left with few positions; the base of an adapter, where it has none
        named = (str(folder), "stdin, line 1: ", "some/model: ")
        if outcome.what == "refused" and not any(name in outcome.said for name in named):
            outcome = outcome._replace(what="no file named")
        wrong = "" if outcome.what in ("links", "refused", "costly") else f"{kind}, {way}: {outcome}"
        return Tried(f"{way} {outcome.what}", wrong, keep)

    return case


def main() -> int:
    """Run from the command line."""
    from tests import toy

    with TemporaryDirectory() as temporary:
        sound = toy.save_model(Path(temporary) / "sound").parent
        return driver.main("models", folder_case({"toy": sound}, Path(temporary)), 1000)


if __name__ == "__main__":
    sys.exit(main())
