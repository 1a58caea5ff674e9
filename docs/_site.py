"""Hooks of mkdocs: add pages from elsewhere in the repository, the reference of the command line, and a style.

The copy button of a session copies its commands, without prompts and output.
"""

from __future__ import annotations

import argparse
import html
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, InclusionLevel

from align.cli.main import pages

ROOT = Path(__file__).parent.parent
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "align/models/bundled/README.md": "models.md",
}
"""Path in the repository to path on the site."""

FOLDERS = {
    "eval/results/": "measured/",
    "eval/results/analysis/": "measured/analysis/",
    "align/training/recipes/": "recipes/",
    ".github/workflows/": "workflows/",
    "research/": "research/",
    "research/analysis/": "research/analysis/",
}
"""The same for folders, all of whose files are on the site."""

COMMANDS = "cli.md"
"""The page that the reference of the command line is added to."""

LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")

PICTURE = re.compile(
    r'<picture>\s*<source [^>]*srcset="(?P<dark>[^"]+)">'
    r'\s*<img src="(?P<light>[^"]+)" alt="(?P<text>[^"]+)"[^>]*>\s*</picture>'
)
"""A picture in two colour schemes, as GitHub shows it."""

SESSION = re.compile(r'(<div class="highlight")(><pre><span></span><code>)(.*?)(?=</code>)', re.S)

STYLE = """\
/* Long lines of code wrap. Where tables of 80 columns have no room, code scrolls, with a shade where it goes on. */
.md-typeset .highlight pre > code { display: block; white-space: pre-wrap; overflow-wrap: anywhere; }
.md-typeset .highlight pre > code::before { content: ""; float: right; width: 2.6em; height: 1.4em; }
.highlight .gp { user-select: none; }
.md-typeset table:not([class]) th { min-width: 3.5rem; }
@media (max-width: 45em) {
  .md-typeset .highlight pre > code {
    white-space: pre;
    padding-top: 2.3em;
    background:
      linear-gradient(to left, var(--md-code-bg-color) 50%, transparent) right / 3rem 100% no-repeat local,
      linear-gradient(to left, var(--md-default-fg-color--lighter), transparent) right / .5rem 100% no-repeat,
      var(--md-code-bg-color);
  }
}
"""


def place(path: str) -> str | None:
    """Map a path in the repository to its path on the site, if it is there."""
    for folder, name in {"docs/": "", **FOLDERS}.items():
        if path.startswith(folder):
            return name + path.removeprefix(folder)
    return PAGES.get(path)


def on_config(config: Any) -> Any:
    """Add the style."""
    config.extra_css.append("site.css")
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add files that are not in docs/."""
    files.append(File.generated(config, "site.css", content=STYLE))
    for pattern in (*PAGES, *(f"{folder}*.*" for folder in FOLDERS)):
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            level = InclusionLevel.UNDEFINED if name in PAGES else InclusionLevel.NOT_IN_NAV
            files.append(File.generated(config, place(name), abs_src_path=str(path), inclusion=level))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Rewrite links, which are relative to the file in the repository; keep research out of the search index."""
    markdown = PICTURE.sub(r"![\g<text>](\g<light>#only-light)![\g<text>](\g<dark>#only-dark)", markdown)
    here = page.file.src_uri
    source = Path(page.file.abs_src_path).relative_to(ROOT).as_posix() if page.file.generated_by else f"docs/{here}"
    if source.startswith("research/"):
        page.meta["search"] = {"exclude": True}
    if here == COMMANDS:
        markdown += "\n".join(("", *command_line()))

    def moved(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[1]))
        there = place(target)
        return match[0] if there is None else f"]({posixpath.relpath(there, posixpath.dirname(here) or '.')}"

    return LINK.sub(moved, markdown)


def on_page_content(content: str, page: Any, config: Any, files: Any) -> str:
    """Tell the theme's copy button what to copy of a session."""

    def copied(match: re.Match[str]) -> str:
        code = commands(html.unescape(re.sub(r"<[^>]+>", "", match[3])))
        return f'{match[1]} data-copy="{html.escape(code)}"{match[2]}{match[3]}' if code else match[0]

    return SESSION.sub(copied, content)


def commands(session: str) -> str:
    """Return what was typed in a session of a shell or of Python; nothing if the text is no session."""
    if session.startswith("$ "):
        return "".join(re.findall(r"^\$ ((?:.*\\\n)*.*\n)", session, re.MULTILINE))
    typed = re.findall(r"^>>> (.*\n(?:\.\.\..*\n)*)", session, re.MULTILINE)
    statements = [re.sub(r"^\.\.\. ?", "", part, flags=re.MULTILINE) for part in typed]
    return "".join(f"{part}\n" if re.search(r"\n .*\n\Z", part) else part for part in statements)  # an end of its block


def command_line() -> list[str]:
    """Write the options of all programs as Markdown, from their parsers."""
    lines = []
    for _, parser in pages():
        examples, _, closing = (parser.epilog or "").partition("\n\n")
        lines += ["", f"## {parser.prog}", "", escaped(parser.description or ""), ""]
        for line in examples.splitlines()[1:]:
            command, _, effect = line.strip().partition("   ")
            lines.append(f"- `{command}`: {escaped(effect)}")
        lines += ["", escaped(closing)]
        for group in parser._action_groups:
            if actions := [action for action in group._group_actions if action.help != argparse.SUPPRESS]:
                title = group.title or ""
                lines += ["", f"**{escaped(title[:1].upper() + title[1:])}**", ""]
                lines += [line for action in actions for line in option(action, parser)]
    return lines


def option(action: argparse.Action, parser: argparse.ArgumentParser) -> list[str]:
    """Write an option, or each subcommand, as an item of a list."""
    if isinstance(action, argparse._SubParsersAction):
        return [f"- `{command.dest}`: {escaped(command.help or '')}" for command in action._choices_actions]
    values = "|".join(map(str, action.choices)) if action.choices else action.dest.upper()
    value = str(action.metavar or values)
    heads = [flag if action.nargs == 0 else f"{flag} {value}" for flag in action.option_strings] or [value]
    text = escaped(parser._get_formatter()._expand_help(action))
    return [f"- {', '.join(f'`{head}`' for head in heads)}: {text}"]


def escaped(text: str) -> str:
    """Escape what Markdown would read as markup, except code spans."""
    parts = " ".join(text.split()).split("`")
    parts[::2] = [re.sub(r"([*_|\[\]])", r"\\\1", html.escape(part, quote=False)) for part in parts[::2]]
    return "`".join(parts)
