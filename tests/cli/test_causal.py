"""Decoder-only models on the command line: templates, both directions, stored layers and heads, translation."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from align import Links, Settings, load
from align.cli import describe, extract, view
from align.cli.args import MethodArgs, ModelArgs, RunArgs
from align.cli.loading import Request, load_models
from align.core.stream import Pool
from align.core.types import Cell
from align.models.model_toml import ModelOptions, format_model_toml, read_model_toml
from tests import causal
from tests.cli.conftest import Run, failed
from tests.unit.test_language_check import ENGLISH, GERMAN

pytest.importorskip("transformers", reason="needs transformers, which writes the model")

PAIRS = [(" ".join(causal.WORDS[n % 7 : 8]), " ".join(causal.WORDS[8 + n % 7 : 16])) for n in range(60)]
LINES = "".join(f"{source} ||| {target}\n" for source, target in PAIRS)
TEMPLATE = "German: {source}\\nEnglish: {target}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a random model, beside the two sides of a text in the current folder."""
    monkeypatch.chdir(tmp_path)
    causal.save(Path("llama"))
    for name, side in (("s", 0), ("t", 1)):
        Path(name).write_text("".join(f"{pair[side]}\n" for pair in PAIRS))
    return tmp_path / "llama"


def test_a_template_and_languages(run_main: Run, folder: Path) -> None:
    result = run_main(extract.main, "-m", "llama", "--source-lang", "de", "--target-lang", "en", stdin=LINES)
    assert result.code == 0
    assert len(result.out.splitlines()) == 60
    assert "text: as it is, in the prompt chat" in result.err
    aligner = load(folder, options=ModelOptions("de", "en"))
    assert result.out.decode() == "".join(f"{alignment}\n" for alignment in aligner(PAIRS))
    failed(
        run_main(extract.main, "-m", "llama", stdin=LINES),
        "needs the source and target language: give --source-lang and --target-lang, such as de and en",
    )
    failed(
        run_main(extract.main, "-m", "llama", "--source-lang", "xx", "--target-lang", "en", stdin=LINES),
        "extract-align: error: llama: no English name is known for xx: give --source-lang its code, or its name "
        "in English, such as Low_German, with a capital letter",
    )
    failed(
        run_main(extract.main, "-m", "llama", "--template", "x", stdin=LINES),
        "the template 'x' has no {source}, and is not one of chat, tower, alma, x-alma, eurollm, translategemma: write "
        "{source}, and {target} at its end unless it is a chat",
    )
    failed(
        run_main(extract.main, "-m", "llama", "--template", "Tower", stdin=LINES), "translategemma: did you mean tower?"
    )
    failed(run_main(extract.main, "-m", "llama", "--template", "Translate this:", stdin=LINES), "unless it is a chat")
    failed(run_main(extract.main, "--template", "chat", stdin=LINES), "read a template: leave out --template")


def test_what_describe_stores(run_main: Run, folder: Path) -> None:
    arguments = ("llama", "--template", TEMPLATE)
    result = run_main(describe.main, *arguments, "-s", "s", "-t", "t", "--heads", "heads.tsv")
    assert result.code == 0
    assert "choosing layers and heads by 60 pairs\n" in result.err
    assert "in the prompt 'German: {source}\\nEnglish: {target}'" in result.out.decode()
    options, calibrations = read_model_toml(folder / "model.toml")
    assert list(calibrations) == ["source to target"]
    calibration = calibrations["source to target"]
    assert options.template == arguments[-1]
    rows = [line.split("\t") for line in Path("heads.tsv").read_text().splitlines()]
    assert rows[0] == ["layer", "head", "score", "position"]
    assert len(rows) == 1 + 2 * 4 * 6
    scores = [float(row[2]) for row in rows[1:]]
    assert scores == sorted(scores, reverse=True)
    read = [position for position in ("input", "output") if ("norm", position) in calibration]
    assert {score for score, _ in calibration} == {"norm", "weight"}
    best = {position: next(float(row[2]) for row in rows[1:] if row[3] == position) for position in ("input", "output")}
    if max(best.values()) < 1.2 * min(best.values()):
        assert read == ["input", "output"]
    short = run_main(extract.main, "-m", "llama", stdin="das ||| the\n")
    assert str(calibration["norm", read[0]]) in short.err  # type: ignore[index]
    assert "the model's own calibration" in short.err
    Path("one").write_text("das\n")
    failed(
        run_main(describe.main, "llama", "-s", "one", "-t", "one"),
        "error: one: choosing layers and heads needs 50 pairs; got 1",
    )


def test_a_description_is_checked_before_heads_are_chosen(run_main: Run, folder: Path) -> None:
    text = ("-s", "s", "-t", "t")
    one = run_main(describe.main, "llama", "--template", "To {target_lang}: {source}", "--target-lang", "en", *text)
    failed(one, "llama: one language is given; give --source-lang and --target-lang")
    assert "choosing" not in one.err
    heads = run_main(describe.main, "llama", "--source-lang", "de", "--target-lang", "en", *text, "--heads", "no/h.tsv")
    failed(heads, "no/h.tsv")
    assert "choosing" not in heads.err
    assert not (folder / "model.toml").exists()
    asked = run_main(
        extract.main, "-m", "llama", "--template", "To {target_lang}: {source}", "--target-lang", "en", stdin=LINES
    )
    assert "--source-lang LANG --target-lang en -s FILE -t FILE` stores" in asked.err
    swapped = run_main(
        describe.main, "llama", "--source-lang", "en", "--target-lang", "de", "--dtype", "bfloat16", *text
    )
    warning, choosing, *_ = swapped.err.splitlines()
    assert "llama translates English to German: swap the two sides" in warning
    assert choosing.endswith("choosing layers and heads by 60 pairs")


def test_one_process_loads_a_language_model_where_processes_are_spawned(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    def pool(workers: int | None) -> object:
        model = ModelArgs(model="llama", source_lang="de", target_lang="en")
        (aligner,) = load_models(
            "program", Request(model, MethodArgs(), RunArgs(threads=2, workers=workers, quiet=True))
        )
        return aligner.open_pool

    monkeypatch.setattr("align.io.pool.METHOD", "spawn")
    assert pool(None) is Pool
    assert pool(2) is not Pool
    monkeypatch.setattr("align.io.pool.METHOD", "fork")
    assert pool(None) is not Pool


def test_the_attention_of_another_direction_is_doubted(run_main: Run, folder: Path) -> None:
    Path("links").write_text("0-0\n" * 60)
    options = ModelOptions("en", "de", template="chat")
    (folder / "model.toml").write_text(format_model_toml(options, {}))
    result = run_main(view.main, "links", "-s", "s", "-t", "t", "-m", "llama", "-o", "page.html")
    assert result.code == 0
    assert "extract-align view: warning: the source looks like German and the target like English" in result.err
    assert "give --source-lang de and --target-lang en, or swap the two sides" in result.err


def test_heads_are_those_of_a_template_and_of_languages(run_main: Run, folder: Path) -> None:
    stored, chosen = "the model's own calibration", "by lexical consistency over 60 pairs"
    both = ("-m", "llama", "--reverse-model", "llama")
    languages = ("--source-lang", "de", "--target-lang", "en")
    assert run_main(describe.main, "llama", "--template", "tower", *languages, "-s", "s", "-t", "t").code == 0
    err = run_main(extract.main, *both, stdin=LINES).err
    assert f"forward: {load(folder).forward.known_choice}\n" in err
    command = "extract-align models describe MODEL --source-lang en --target-lang de -s FILE -t FILE"
    assert err.count(f"; `{command}` stores layer and head for all texts\n") == 1
    for template, expected in (("chat", stored), ("alma", chosen), (TEMPLATE, chosen)):
        assert expected in run_main(extract.main, *both[:2], "--template", template, stdin=LINES).err
    err = run_main(extract.main, *both[:2], "--template", TEMPLATE, stdin=LINES).err
    assert f"describe MODEL --template '{TEMPLATE}' --source-lang de --target-lang en -s FILE -t FILE`" in err
    swapped = ("--source-lang", "en", "--target-lang", "de", "-s", "t", "-t", "s")
    assert run_main(describe.main, "llama", *swapped).code == 0
    calibrations = read_model_toml(folder / "model.toml")[1]
    assert list(calibrations) == ["de to en", "en to de"]
    read = [
        f"{pair}: {position} {cell}"
        for pair, cells in calibrations.items()
        for (score, position), cell in cells.items()
        if score == "norm"
    ]
    rows = "\n           ".join(read)
    assert f"stored     {rows}\n" in run_main(describe.main, "llama", "--dtype", "bfloat16").out.decode()
    assert run_main(extract.main, *both, *languages, stdin=LINES).err.count(stored) == 2
    other = run_main(describe.main, "llama", "--template", "alma")
    assert "layers and heads of another template are removed from " in other.err
    assert b"stored     no layers and heads\n" in other.out
    assert other.code == 0
    options, calibrations = read_model_toml(folder / "model.toml")
    assert (options.template, options.source_lang, any(calibrations.values())) == ("alma", "en", False)


def test_heads_that_are_chosen_again_replace_the_stored_ones(run_main: Run, folder: Path) -> None:
    describing = ("llama", "--source-lang", "de", "--target-lang", "en", "-s", "s", "-t", "t")
    assert run_main(describe.main, *describing).code == 0
    options, chosen = read_model_toml(folder / "model.toml")
    assert {position for _, position in chosen["de to en"]} == {"input"}
    stale = {**chosen["de to en"], ("norm", "output"): Cell(4, 6)}
    (folder / "model.toml").write_text(format_model_toml(options, {"de to en": stale}))
    assert run_main(describe.main, *describing).code == 0
    assert read_model_toml(folder / "model.toml")[1] == chosen


def test_a_text_in_the_other_direction(run_main: Run, folder: Path) -> None:
    """A model whose stored languages are those of the last `describe` serves the other direction, too."""
    (folder / "config.json").write_text((folder / "config.json").read_text().replace("128", "1024"))
    assert run_main(describe.main, "llama", "--source-lang", "en", "--target-lang", "de").code == 0
    text = "".join(f"{pair[0]} ||| {pair[1]}\n" for pair in zip(GERMAN, ENGLISH, strict=True))
    looks = "the source looks like German and the target like English; llama translates English to German"
    result = run_main(extract.main, "-q", "-m", "llama", stdin=text)
    advice = "give --source-lang de and --target-lang en, or swap the two sides"
    assert (result.code, result.err) == (0, f"extract-align: warning: {looks}: {advice}\n")
    requested = ("--source-lang", "en", "--target-lang", "de")
    result = run_main(extract.main, "-q", "-m", "llama", *requested, stdin=text)
    assert result.err == f"extract-align: warning: {looks}: swap the two sides\n"
    for name, side in (("one", GERMAN), ("other", ENGLISH)):
        Path(name).write_text("".join(f"{line}\n" for line in (60 * side)[:60]))
    result = run_main(describe.main, "llama", *requested, "-s", "one", "-t", "other")
    assert f"extract-align models: warning: {looks}: " in result.err


def test_heads_for_simultaneous_translation(run_main: Run, folder: Path) -> None:
    arguments = ("llama", "--template", TEMPLATE, "-s", "s", "-t", "t", "--heads", "heads.json")
    assert run_main(describe.main, *arguments).code == 0
    heads = json.loads(Path("heads.json").read_text())
    (calibration,) = read_model_toml(folder / "model.toml")[1].values()
    read, predicted = calibration["norm", "input"], calibration["norm", "output"]
    chosen = Settings("norm", "both", read.layer, read.head, "mask", None, predicted.layer, predicted.head)
    aligner = load("llama", device="cpu")

    def links(settings: Settings) -> list[Links]:
        direction = replace(aligner.forward, settings=settings)
        return [alignment.links for alignment in replace(aligner, forward=direction)(PAIRS)]

    reference = links(chosen)
    total = sum(map(len, reference))
    assert (heads["language_pair"], heads["num_layers"], heads["num_heads"]) == ("source-target", 4, 6)
    assert (heads["num_sentences"], heads["total_alignable_tokens"]) == (len(PAIRS), total)
    listed = heads["token_alignment_heads"]
    assert [one["ts"] for one in listed] == sorted((one["ts"] for one in listed), reverse=True)
    assert {(one["layer"], one["head"]) for one in listed} == {(layer, head) for layer in range(4) for head in range(6)}
    for one in (*listed[:3], listed[-1]):
        of_head = links(Settings("weight", "output", one["layer"] + 1, one["head"] + 1, "mask", None))
        agreed = sum(len(mine & theirs) for mine, theirs in zip(of_head, reference, strict=True))
        assert one["ts"] == round(agreed / total, 4)


def test_translation(run_main: Run, folder: Path) -> None:
    (folder / "config.json").write_text((folder / "config.json").read_text().replace("128", "1024"))
    arguments = ("-m", "llama", "--template", "{source} = {target}", "--translate")
    result = run_main(extract.main, *arguments, stdin="das haus\n")
    assert result.code == 0
    assert result.out.count(b" ||| ") == 1
    assert "|translate:beam1|" in result.err
    result = run_main(extract.main, *arguments, "--beam", "3", stdin="das haus\n")
    failed(result, "translate by greedy search, not with a beam of 3: leave out --beam")
    assert run_main(extract.main, *arguments, "--beam", "1", stdin="das haus\n").code == 0


def test_a_pair_that_is_too_long_with_its_prompt(run_main: Run, folder: Path) -> None:
    arguments = ("-m", "llama", "--template", "{source} = {target}")
    result = run_main(extract.main, *arguments, stdin=f"{'das ' * 70}||| {'the ' * 70}\n")
    failed(result, "line 1: the pair with its prompt has ", " pieces, the model takes 128: shorten it")


def test_a_sentence_whose_prompt_leaves_no_room(run_main: Run, folder: Path) -> None:
    arguments = ("-m", "llama", "--template", "{source} = {target}", "--translate")
    for pieces in (127, 128):
        words = "x " * ((pieces - 3) // 2) + "das" * (pieces % 2 == 0)
        result = run_main(extract.main, *arguments, stdin=words)
        failed(result, f"line 1: source has {pieces} pieces with </s>, the model takes 126: shorten it")
