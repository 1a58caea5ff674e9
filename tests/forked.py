"""Programs as processes that do not import torch again: each is a fork of a server that has imported it.

`python -m tests.forked SOCKET NAME=MODULE ...` is the server. `programs` yields a folder with a small script for each
program, which sends its arguments, environment, current folder and standard streams to the server, waits, and ends with
the same exit code. Signals to the script do not reach the program, so what has to be stopped runs as a process of its
own.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from align.cli.main import COMMANDS

CLIENT = """#!{python} -IS
import json, os, socket, sys
name, *words = os.path.basename(sys.argv[0]), *sys.argv[1:]
if {own} & set(words[:1]) or "--engine" in words:
    path = os.path.join({programs!r}, name)
    os.execv(path, [path, *words])
request = json.dumps([name, words, os.getcwd(), dict(os.environ)]).encode()
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    socket.send_fds(server, [len(request).to_bytes(4, "big")], [0, 1, 2])
    server.sendall(request)
    sys.exit((server.recv(1) or b"\\xff")[0])
"""

PROGRAMS = {"extract-align": "align.cli.main"}

FAIRSEQ = {"fairseq_cli": "align.fairseq_cli"}

OWN = {"serve", "-c", "-m", "-"}
"""First arguments of what runs as a process of its own: a service, and Python without a script."""


@contextlib.contextmanager
def programs(environment: Mapping[str, str], modules: Mapping[str, str] = PROGRAMS) -> Iterator[Path]:
    """Start a server, and yield the folder of scripts."""
    with tempfile.TemporaryDirectory(prefix="align-") as name:
        folder, address = Path(name), str(Path(name) / "socket")
        own = Path(sys.executable).parent
        for program in (*modules, "python"):
            if modules != PROGRAMS or shutil.which(program, path=str(own)):
                script = CLIENT.format(python=sys.executable, own=OWN, programs=str(own), address=address)
                (folder / program).write_text(script, encoding="utf-8")
                (folder / program).chmod(0o755)
        names = (f"{program}={module}" for program, module in modules.items())
        command = [sys.executable, "-m", "tests.forked", address, *names]
        with subprocess.Popen(command, env=dict(environment), stdout=subprocess.PIPE) as server:
            assert server.stdout
            server.stdout.readline()
            try:
                yield folder
            finally:
                server.terminate()


def reap() -> None:
    """Wait for those handlers of requests that have ended, so that their processor time counts as the server's."""
    assert sys.platform != "win32"
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def serve(address: str) -> None:
    """Run programs until this process is stopped; return in the process of a program only."""
    assert sys.platform != "win32"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print(flush=True)
        signal.signal(signal.SIGCHLD, lambda *_: reap())
        while True:
            request, _ = listener.accept()
            if os.fork():
                request.close()
                continue
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            size, streams, _, _ = socket.recv_fds(request, 4, 3)
            with request.makefile("rb") as stream:
                name, words, folder, environment = json.loads(stream.read(int.from_bytes(size, "big")))
            if program := os.fork():
                for descriptor in streams:
                    os.close(descriptor)
                status = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
                with contextlib.suppress(OSError):
                    request.send(bytes([status % 256 if status >= 0 else 128 - status]))
                os._exit(0)
            for number, descriptor in enumerate(streams):
                os.dup2(descriptor, number)
                os.close(descriptor)
            request.close()
            listener.close()
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment)
            sys.argv = [name, *words]
            return


def main() -> None:
    """Run what a script has asked for, in its process."""
    import torch

    modules = dict(pair.split("=") for pair in sys.argv[2:])
    for module in modules.values():
        importlib.import_module(module)
    if "extract-align" in modules:
        for command, _ in COMMANDS.values():
            importlib.import_module(command)
    if "fairseq_cli" in modules:
        from align.training.compat import install

        install()
        for part in ("preprocess", "train", "validate", "generate"):
            importlib.import_module(f"fairseq_cli.{part}")
    serve(sys.argv[1])
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))
    name, *words = sys.argv
    if name != "python":
        try:
            code = importlib.import_module(modules[name]).main() or 0
        except SystemExit as stop:
            if isinstance(stop.code, str):
                raise
            code = stop.code or 0
        sys.stdout.flush()
        os._exit(code)  # tearing down all that is imported takes longer than most programs
    sys.argv = words
    sys.path.insert(0, str(Path(words[0]).parent))
    runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    main()
