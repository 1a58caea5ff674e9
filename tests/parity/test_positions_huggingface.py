"""Input and output are not off by one with any family: models whose attention is forced to a known pattern.

Each decoder step attends to one source word, which depends on the word that it reads, on the layer and on the head. So
in the input position a word is aligned by what itself stands for, and in the output position by the word before it;
what comes before the first word, language or not, stands for the source's `</s>`.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from align import Aligner, Direction, Pair, load
from tests import hugging, naive_hugging
from tests.conftest import plain

pytest.importorskip("transformers")

LEXICON = {"the": "das", "house": "haus", "old": "alt"}
TARGETS, SOURCES = list(LEXICON), list(LEXICON.values())
PAIR = Pair(("haus", "alt", "das"), ("old", "the", "house"), 1)
NEIGHBOURS = [("das", "the"), ("haus alt das alt und gross", "old the house the house big and we see")]


def force(folder: Path, kind: str, model: Any) -> None:
    """Weights with which head h of layer l (from 0) reads, for word n of the lexicon, the source word n + l + h.

    Pieces are one-hot vectors, so long that positions are nothing beside them; they go through all layers as they are.
    """
    source, target = naive_hugging.own_tokenizers(kind, folder)
    config = model.config
    words = [
        tokenize(word, add_special_tokens=False)["input_ids"]
        for tokenize, some in ((source, SOURCES), (target, TARGETS))
        for word in some
    ]
    starts = [config.pad_token_id, getattr(config, "bos_token_id", None) or 0]
    starts += target.convert_tokens_to_ids(["eng_Latn"]) if kind in hugging.MULTILINGUAL else []
    pieces = [*(piece for (piece,) in words), config.eos_token_id, *starts]  # each is one: sources, targets, </s>, ...
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if not hugging.is_computed(kind, name):
                weight.fill_("norm" in name and name.endswith("weight"))
        for stack in (model.get_encoder(), model.get_decoder()):
            stack.embed_tokens.weight.zero_()
            for n, piece in enumerate(dict.fromkeys(pieces)):
                stack.embed_tokens.weight[piece, n] = 100
        for number, (module, v, o) in enumerate(naive_hugging.cross_attentions(kind, model)):
            t5 = kind in ("t5", "mt5")
            q, k = (module.q, module.k) if t5 else (module.q_proj, module.k_proj)
            size = q.out_features // 4
            for h, n in product(range(4), range(3)):
                k.weight[h * size + n, n] = 1
                q.weight[h * size + (n + number + h) % 3, 3 + n] = 1
            for h in range(4):
                k.weight[h * size + 3, 6] = 1  # </s>
                q.weight[h * size + 3, 6:] = 1  # and what a decoder begins with
            torch.nn.init.normal_(v.weight, std=0.01)
            torch.nn.init.normal_(o.weight, std=0.01)


def expected(position: str, layer: int, head: int) -> set[tuple[int, int]]:
    """Links of PAIR by head and layer, from 1."""
    links = set()
    for j, word in enumerate(PAIR.target):
        read = j + (position == "output")
        if read < len(PAIR.target):
            stands_for = SOURCES[(TARGETS.index(word) + layer + head - 2) % 3]
            links.add((PAIR.source.index(stands_for), read))
    return links


@pytest.mark.filterwarnings("ignore::align.core.types.TextWarning")
@pytest.mark.parametrize("kind", hugging.VOCABULARIES)
def test_a_word_is_aligned_by_the_step_that_reads_or_predicts_it(kind: str, tmp_path: Path) -> None:
    model = hugging.save_model(kind, tmp_path, fill=partial(force, tmp_path))
    recorder = load(tmp_path, options=hugging.options(kind)).forward.recorder
    sentence = naive_hugging.encode(kind, tmp_path, model, PAIR)
    own = naive_hugging.layers_of(kind, model, sentence)
    for layer, head, score, position in product((1, 2, 3), (1, 2, 3, 4), ("weight", "norm"), ("input", "output")):
        known = expected(position, layer, head)
        pharaoh = " ".join(f"{i}-{j}" for i, j in sorted(known))
        aligner = Aligner(Direction(recorder, plain(score, position, layer, head)))
        assert str(aligner.align(PAIR.source, PAIR.target)) == pharaoh
        assert str(next(aligner([PAIR, *NEIGHBOURS]))) == pharaoh
        assert naive_hugging.links(own[layer - 1], sentence, (3, 3), score, position, head - 1) == known
