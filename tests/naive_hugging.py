"""Links of a Hugging Face model by transformers' own modules and tokenisers: one sentence, every vector written out.

Shares no code with the package, and knows nothing of its rows: the target is given as labels, as in training, and
transformers itself makes of them what the decoder reads. Row r of the attention is of the step that predicts label r;
the next one reads it.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch

from align import Pair
from tests import naive

SURROUNDINGS = {
    "bart": ("<s> PIECES </s>", "<s> PIECES </s>"),
    "m2m_100": ("deu_Latn PIECES </s>", "eng_Latn PIECES </s>"),
    "mbart": ("PIECES </s> deu_Latn", "PIECES </s> eng_Latn"),
    "mbart-50": ("deu_Latn PIECES </s>", "eng_Latn PIECES </s>"),
}
"""What the tokenisers of some families make of a source and of labels; the others put `</s>` at the end."""


class Sentence(NamedTuple):
    """Ids of a source and of labels, and the word that each belongs to: -1 for what is none."""

    source: list[int]
    source_words: list[int]
    labels: list[int]
    label_words: list[int]


class Layer(NamedTuple):
    """A decoder layer's attention weights `[H, T, S]`, and the vectors that they weigh, `f_h(x_s)` `[H, S, D]`."""

    weights: torch.Tensor
    vectors: torch.Tensor


def own_tokenizers(kind: str, folder: Path) -> tuple[Any, Any]:
    """What cuts a source and a target into numbers of pieces, by transformers."""
    import transformers

    hf: Any = transformers
    if kind == "marian":
        files = {name: str(folder / f"{name}.spm") for name in ("source", "target")}
        own = hf.MarianTokenizer(files["source"], files["target"], str(folder / "vocab.json"))
        return own, lambda text, **more: own(text_target=text, **more)
    if kind == "fsmt":
        files = {f"{name}_vocab_file": str(folder / f"vocab-{name}.json") for name in ("src", "tgt")}
        own = hf.FSMTTokenizer(langs=["de", "en"], merges_file=str(folder / "merges.txt"), do_lower_case=True, **files)
        return own, own
    own = hf.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    return own, own


def encode(kind: str, folder: Path, model: Any, pair: Pair) -> Sentence:
    """The pieces of a pair, by transformers' own tokenisers, word by word; also as a whole, which gives the same."""
    sides = []
    named = {"<s>": "bos_token_id", "</s>": "eos_token_id"}
    surroundings = SURROUNDINGS.get(kind, ("PIECES </s>", "PIECES </s>"))
    for tokenize, words, around in zip(
        own_tokenizers(kind, folder), (pair.source, pair.target), surroundings, strict=True
    ):
        ids: list[int] = []
        of_words: list[int] = []
        for part in around.split():
            if part != "PIECES":
                ids.append(
                    getattr(model.config, named[part]) if part in named else tokenize.convert_tokens_to_ids(part)
                )
                of_words.append(-1)
                continue
            for n, word in enumerate(words):
                pieces = tokenize(word, add_special_tokens=False)["input_ids"]
                ids += pieces
                of_words += [n] * len(pieces)
        whole = tokenize(" ".join(words), add_special_tokens=False)["input_ids"]
        assert whole == [n for n, word in zip(ids, of_words, strict=True) if word >= 0]
        sides.append((ids, of_words))
    return Sentence(*sides[0], *sides[1])


def forward(kind: str, model: Any, sentence: Sentence) -> Any:
    """What transformers' own forward pass puts out for one sentence."""
    given = {"labels": torch.tensor([sentence.labels])}
    if (
        kind == "fsmt"
    ):  # which takes the decoder's input from the source, but has the function that it should be made by
        from transformers.models.fsmt.modeling_fsmt import shift_tokens_right

        given = {"decoder_input_ids": shift_tokens_right(given["labels"], model.config.pad_token_id)}
    with torch.inference_mode():
        return model(input_ids=torch.tensor([sentence.source]), **given, output_attentions=True, use_cache=False)


def cross_attentions(kind: str, model: Any) -> list[tuple[Any, Any, Any]]:
    """Each decoder layer's cross-attention module, with its projections of values and of what it puts out."""
    if kind in ("t5", "mt5"):
        modules = [block.layer[1].EncDecAttention for block in model.decoder.block]
        return [(module, module.v, module.o) for module in modules]
    modules = [layer.encoder_attn for layer in model.model.decoder.layers]
    return [(module, module.v_proj, module.out_proj) for module in modules]


def layers_of(kind: str, model: Any, sentence: Sentence) -> list[Layer]:
    """Attention of each decoder layer, and `f_h(x) = ((x W_V + b_V) W_O)` of each head (Kobayashi et al. 2020)."""
    found = forward(kind, model, sentence)
    encoded = found.encoder_last_hidden_state[0].double()  # [S, D]
    layers = []
    for (_, v, o), attention in zip(cross_attentions(kind, model), found.cross_attentions, strict=True):
        weights = attention[0].double()  # [H, T, S]
        heads, size = len(weights), v.out_features // len(weights)
        value_weight, out_weight = v.weight.detach().double(), o.weight.detach().double()
        value_bias = torch.zeros(v.out_features) if v.bias is None else v.bias.detach()
        vectors = torch.zeros(heads, len(encoded), o.out_features, dtype=torch.float64)
        for h, s in product(range(heads), range(len(encoded))):
            mine = slice(h * size, (h + 1) * size)
            value = value_weight[mine] @ encoded[s] + value_bias[mine].double()  # [d]
            vectors[h, s] = out_weight[:, mine] @ value
        layers.append(Layer(weights, vectors))
    return layers


def piece_score(layer: Layer, score: str, head: int | None, row: int, column: int) -> float:
    """How much a row attends to a source piece; head from 0, None for all."""
    of_heads = range(len(layer.weights)) if head is None else [head]
    if score == "weight":
        return sum(float(layer.weights[h, row, column]) for h in of_heads) / len(of_heads)
    vector = torch.zeros(layer.vectors.shape[2], dtype=torch.float64)
    for h in of_heads:
        vector += layer.weights[h, row, column] * layer.vectors[h, column]
    return float(vector.norm())


def links(
    layer: Layer, sentence: Sentence, words: tuple[int, int], score: str, position: str, head: int | None
) -> set[tuple[int, int]]:
    """Links by argmax, for so many source and target words; what is no word is NULL."""
    source_count, target_count = words
    scores = [[0.0] * (source_count + 1) for _ in range(target_count)]
    for j in range(target_count):
        mine = [n for n, word in enumerate(sentence.label_words) if word == j]
        for n, (column, word) in product(mine, enumerate(sentence.source_words)):
            row = n + 1 if position == "input" else n
            scores[j][source_count if word == -1 else word] += piece_score(layer, score, head, row, column) / len(mine)
    return naive.links(scores)[0]
