"""What a recipe may say."""

from __future__ import annotations

from pathlib import Path

import pytest

from align.training.recipe import CheckpointRecipe, read_recipe


def test_the_recipes_of_the_repository_can_be_read() -> None:
    paper, small = read_recipe("kobayashi2020"), read_recipe()
    assert paper.seeds == (2253, 5498, 9819, 9240, 2453)
    assert paper.text.vocabulary == 10_000
    assert not paper.text.dummy_prefix
    assert "--eval-bleu" in paper.flags()
    assert small.checkpoint == CheckpointRecipe("best")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[data\n", "recipe.toml: "),
        ("[data]\nlines = 3\n", r"\[data\] has the unknown key lines"),
        ('[data]\nmax_words = "3"\n', r"max_words is '3', but must be of type int"),
        ('[checkpoint]\nselect = "first"\n', "select must be one of best, last, average"),
        ("[data]\nvalid_lines = 0\n", "valid_lines must be more than 0 and less than"),
        ('[fairseq]\n"save-dir=/x" = true\n', "save-dir=/x is not for a recipe to set"),
        ("[fairseq]\nnonsense = 3\n", "nonsense is not for a recipe to set"),
        ("""[fairseq]\nadam-betas = "__import__('os').system('true') or (0.9, 0.98)"\n""", "value has '__' in it"),
        ('[fairseq]\narch = "${oc.env:HOME}"\n', r"value has '\$\{' in it"),
        ('[fairseq]\narch = "--save-dir=/x"\n', "arch is '--save-dir=/x', which fairseq would read as an option"),
        ('[fairseq]\nlr = ["1"]\n', r"lr is of type list, but must be text, a number"),
        ('[fairseq]\nmax-update = "inf"\n', "max-update is 'inf', but must be a whole number from 0 to 2,147,483,648"),
        ("[fairseq]\nstop-time-hours = -1\n", "stop-time-hours is -1, but must be a number from 0"),
        ("seeds = []\n", "one at least"),
        ("seeds = [1.5]\n", "seeds are whole numbers"),
        ('seeds = "12"\n', "seeds are whole numbers"),
    ],
)
def test_a_recipe_with_a_mistake_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_recipe(path)


def test_flags_are_as_a_shell_gives_them(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    text = '[fairseq]\nlr = 0.5\neval-bleu = true\ntruncate-source = false\narch = "x"\nupdate-freq = [2, 4]\n'
    path.write_text(text, encoding="utf-8")
    assert read_recipe(path).flags() == ["--lr", "0.5", "--eval-bleu", "--arch", "x", "--update-freq", "[2, 4]"]
