"""Models of published shapes and vocabulary sizes: pieces, attention and links are those of transformers."""

from __future__ import annotations

import json
import shutil
import unicodedata
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from align import Aligner, Alignment, Direction, ModelOptions, Pair, load
from align.core.scores import collate
from align.core.text import normalize, split_words
from align.models.huggingface.languages import LANGUAGES
from tests import naive_hugging
from tests.conftest import assert_same_links, plain
from tests.hub_models import MODELS, HubModel, Ids, find_model, write_model
from tests.vocabularies import SENTENCES

pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore::align.core.types.TextWarning")

GOLDEN = Path(__file__).parent.parent / "golden" / "transformers-4.57"
TOKENIZERS = Path(__file__).parents[2].parent / "shared" / "data" / "tokenizers"
PAIRS = [Pair(split_words(SENTENCES[n]), split_words(SENTENCES[n + 1]), n + 1) for n in (0, 3, 6)]


class Saved(NamedTuple):
    """A folder, what it is like, transformers' module, and the ids of the sentences by its tokenizer."""

    model: HubModel
    folder: Path
    module: Any
    ids: Ids

    def load(self, **more: Any) -> Any:
        """Load it for the languages that the ids are of."""
        prefix = self.model.prefix if self.model.prefix and not self.model.source else None
        options = ModelOptions(source_lang=self.model.source, target_lang=self.model.target, source_prefix=prefix)
        return load(self.folder, options=options, device="cpu", **more)


@pytest.fixture(scope="module", params=MODELS, ids=lambda model: model.name)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Saved]:
    """A folder of each published model."""
    folder = tmp_path_factory.mktemp("model")
    yield Saved(request.param, folder, *write_model(request.param, folder))
    shutil.rmtree(folder)  # some have 20 MB


def ids_of(recorder: Any, side: str, sentences: Iterable[str] = SENTENCES) -> list[list[int]]:
    pairs = (Pair(split_words(text), split_words(text), 1) for text in sentences)
    return [list(getattr(recorder.encode(pair), side)) for pair in pairs]


def test_pieces_of_hard_sentences(saved: Saved) -> None:
    recorder = saved.load().forward.recorder
    assert set(saved.ids) == {"source", "target"}
    for side, expected in saved.ids.items():
        found = ids_of(recorder, side)
        assert [n for n, (ids, others) in enumerate(zip(found, expected, strict=True)) if ids != others] == []
        assert ids_of(recorder, side, (unicodedata.normalize("NFD", text) for text in SENTENCES)) == expected
    assert len(recorder.transformer.encoder.embedding.pieces) == saved.model.rows


def sentence(recorder: Any, model: HubModel, pair: Pair) -> naive_hugging.Sentence:
    """The pieces of a pair, and the labels from which transformers makes what the decoder reads."""
    pieces = recorder.encode(pair)
    before = list(recorder.start[1:])
    labels = [*before, *pieces.target, model.settings["eos_token_id"]]
    words = [*(-1 for _ in before), *pieces.target_words, -1]
    if model.name == "facebook/mbart-large-en-ro":  # whose last label, the language, is what the decoder begins with
        labels, words = [*labels, recorder.start[0]], [*words, -1]
    return naive_hugging.Sentence(list(pieces.source), list(pieces.source_words), labels, words)


def test_attention_and_links(saved: Saved) -> None:
    aligner = saved.load()
    recorder, model = aligner.forward.recorder, saved.model
    pieces = [recorder.encode(pair) for pair in PAIRS]
    recorded = list(recorder.record(collate(pieces, recorder.pad), range(1, recorder.layers + 1)))
    expected: dict[Any, list[Alignment]] = {}
    kind = "t5" if model.kind in ("mt5", "umt5") else model.kind
    for b, pair in enumerate(PAIRS):
        given = sentence(recorder, model, pair)
        layers = naive_hugging.layers_of(kind, saved.module, given)
        first = given.label_words.index(0)
        rows, columns = len(pieces[b].target) + 1, len(pieces[b].source)
        for own, attention in zip(layers, recorded, strict=True):
            weights = attention.weights[b, :, :rows, :columns].double()
            torch.testing.assert_close(weights, own.weights[:, first : first + rows], rtol=0, atol=3e-5)
        words = len(pair.source), len(pair.target)
        for score, position, head in product(("weight", "norm"), ("input", "output"), (None, 1)):
            links = naive_hugging.links(layers[1], given, words, score, position, head)
            cell = score, position, 2, "all" if head is None else head + 1
            expected.setdefault(cell, []).append(Alignment(pair, dict.fromkeys(links, 1.0)))
    for cell, alignments in expected.items():
        chosen = Aligner(Direction(recorder, plain(*cell)))
        assert_same_links(chosen, chosen(PAIRS), alignments)
    assert any(alignment.links for alignments in expected.values() for alignment in alignments)


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.iterdir()))
def test_folders_of_transformers_4(name: str, tmp_path: Path) -> None:
    """Tokenizer files that 4.57.3 wrote, with ids that it gave; tests/golden/README.md says how."""
    model = next(model for model in MODELS if model.name.endswith(f"/{name}")).with_pieces(1000)
    write_model(model, tmp_path)
    for name_of in ("tokenizer", "tokenizer_config", "special_tokens_map", "added_tokens", "vocab"):
        (tmp_path / f"{name_of}.json").unlink(missing_ok=True)
    shutil.copytree(GOLDEN / name, tmp_path, dirs_exist_ok=True)
    expected: Ids = json.loads((GOLDEN / name / "ids.json").read_text(encoding="utf-8"))
    recorder = Saved(model, tmp_path, None, expected).load().forward.recorder
    for side in ("source", "target"):
        assert ids_of(recorder, side) == expected[side]


@pytest.mark.skipif(not TOKENIZERS.is_dir(), reason=f"{TOKENIZERS} is absent")
@pytest.mark.parametrize("name", ["opus-mt-en-mg", "opus-mt-tc-big-fr-en"])
def test_real_tokenizers(name: str, tmp_path: Path) -> None:
    from transformers import AutoConfig, AutoModelForSeq2SeqLM, MarianTokenizer

    for file in (TOKENIZERS / name).iterdir():
        shutil.copyfile(file, tmp_path / file.name)
    content = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    sizes = {"d_model": 16, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8, "encoder_layers": 1, "decoder_layers": 1}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "torch_dtype": "float32"}
    (tmp_path / "config.json").write_text(json.dumps({**content, **sizes, **heads}), encoding="utf-8")
    AutoModelForSeq2SeqLM.from_config(AutoConfig.from_pretrained(tmp_path)).save_pretrained(tmp_path)
    own: Any = MarianTokenizer.from_pretrained(tmp_path)
    recorder = load(tmp_path).forward.recorder
    texts = [normalize(" ".join(split_words(text))) for text in SENTENCES]
    assert ids_of(recorder, "source") == [own(text)["input_ids"] for text in texts]
    assert ids_of(recorder, "target") == [own(text_target=text)["input_ids"][:-1] for text in texts]


def test_shards_and_half_precision_give_the_same_links(tmp_path: Path) -> None:
    """Weights in several files, in float16, by safetensors and by torch: rounded once, all of them are the same."""
    model = find_model("facebook/nllb-200-distilled-600M").with_pieces(1500)
    module, ids = write_model(model, tmp_path / "whole")
    half, links = module.half(), []
    for name in ("one", "shards", "torch"):
        folder = tmp_path / name
        shutil.copytree(tmp_path / "whole", folder)
        (folder / "model.safetensors").unlink()
        if name == "torch":
            torch.save(half.state_dict(), folder / "pytorch_model.bin")
        else:
            half.save_pretrained(folder, max_shard_size="60KB" if name == "shards" else "5GB")
        recorder = Saved(model, folder, None, ids).load().forward.recorder
        aligner = Aligner(Direction(recorder, plain("norm", "input", 2, 1)))
        links.append([alignment.links for alignment in aligner(PAIRS)])
    assert (tmp_path / "shards" / "model.safetensors.index.json").is_file()
    assert links[0] == links[1] == links[2]
    assert any(links[0])


def test_languages_are_those_of_transformers() -> None:
    """And so NLLB's 256,000 pieces make eng_Latn 256047, as its published models have it."""
    for release, name in (("mbart", "mbart"), ("mbart-50", "mbart50"), ("nllb", "nllb")):
        own: Any = import_module(f"transformers.models.{name}.tokenization_{name}")
        assert LANGUAGES[release].split() == list(own.FAIRSEQ_LANGUAGE_CODES)
    assert 256_000 + 1 + LANGUAGES["nllb"].split().index("eng_Latn") == 256_047


def test_the_guide_lists_these_models() -> None:
    """A row for each: its name, type, the size of its vocabulary and of the model, and its languages."""
    page = (Path(__file__).parents[2] / "docs" / "your-model.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in page.split("\n") if row.startswith("| ")]
    listed = {row[0]: row for row in rows if "/" in row[0]}
    assert listed.keys() == {model.name for model in MODELS}
    for model in MODELS:
        _, kind, pieces, parameters, languages = listed[model.name]
        assert (kind, pieces, parameters) == (f"`{model.kind}`", f"{model.rows:,}", f"{model.parameters:,}")
        for code, option in ((model.source, "--source-lang"), (model.target, "--target-lang")):
            assert (f"{option} {code}" in languages) == (code is not None)
