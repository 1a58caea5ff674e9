"""A demo of extract-align: links of a sentence pair, and the tags of a sentence in its translation.

Visitors may send anything: texts are short, and all that is shown of them is text. `python app.py` starts it.
"""

from __future__ import annotations

import html
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

from align import Aligner, Alignment, load
from align.core.text import split_words
from align.core.types import FLOOR, THRESHOLD
from align.transfer.inline import Inline
from align.view.page import System, make_page

MODELS = {"German to English": "de-en", "English to German": "en-de"}
MOST_CHARACTERS = 400
"""Maximum length of a text; the table of its words then has no more cells than the page draws."""

MOST_BYTES = 1 << 14
"""Maximum size of a request: texts, and what Gradio adds."""

LINKS = [
    ["German to English", "Das Haus , das ich gestern sah , war groß .", "The house that I saw yesterday was big ."],
    ["English to German", "We will see each other again tomorrow .", "Morgen sehen wir uns wieder ."],
]
TAGS = [
    ["German to English", "Das <b>Haus</b>, das ich <i>gestern</i> sah", "The house that I saw yesterday"],
    ["English to German", "We will meet <b>tomorrow</b>.", "Morgen treffen wir uns."],
]


def show_links(direction: str, source: str, target: str) -> tuple[str, str]:
    """Align a sentence pair.

    Args:
        direction: a key of MODELS.
        source: a sentence, its words between spaces.

    Returns:
        A frame with a page of its own, which draws links and their table, and the links in Pharaoh format.

    Raises:
        ValueError: the pair has nothing to align, or is too long.
    """
    model = model_of(direction)
    alignment = align_words(model, THRESHOLD, split_words(one_line(source)), split_words(one_line(target)))
    page = make_page([alignment.pair], [System(model, [alignment.links], [alignment.scores])])
    return frame(page), str(alignment)


def transfer_tags(direction: str, source: str, target: str) -> str:
    """Copy the tags of a sentence into its translation, and return that; for the arguments see `show_links`.

    Raises:
        ValueError: as for `show_links`, or the tags are not XML.
    """
    model, target = model_of(direction), one_line(target)
    inline = Inline.of_line(one_line(source), target, "xml")
    return inline.place(align_words(model, FLOOR, inline.source_words, inline.target_words).scores).text


def model_of(direction: str) -> str:
    """Return the model for a direction.

    Raises:
        ValueError: there is none.
    """
    if direction not in MODELS:
        raise ValueError(f"choose a direction: {' or '.join(MODELS)}")
    return MODELS[direction]


def one_line(text: str) -> str:
    """Return a text with spaces in place of line breaks, and `?` in place of what UTF-8 cannot encode.

    Raises:
        ValueError: the text is too long.
    """
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"a sentence has at most {MOST_CHARACTERS} characters here, this one has {len(text):,}")
    return text.replace("\n", " ").encode("utf-8", "replace").decode()


def align_words(model: str, threshold: float, source: tuple[str, ...], target: tuple[str, ...]) -> Alignment:
    """Align the words of a pair.

    Raises:
        ValueError: a side has no words, or too many for the model.
    """
    if not source or not target:
        raise ValueError("write a sentence and its translation")
    return aligner_of(model, threshold).align(source, target)


@cache
def aligner_of(model: str, threshold: float) -> Aligner:
    """Load a model once; its layer and head are those of its calibration, whatever visitors write."""
    return load(model, threshold=threshold, device="cpu").fixed()


def frame(page: str) -> str:
    """Return HTML that shows a page in a frame of its own, whose scripts reach nothing outside of it."""
    style = "width: 100%; height: 44rem; border: 0; resize: vertical"
    return (
        f'<iframe sandbox="allow-scripts" title="Word alignment" style="{style}" srcdoc="{html.escape(page)}"></iframe>'
    )


class BodyLimit:
    """ASGI middleware that refuses files, bodies of more than MOST_BYTES, and those that do not tell their length."""

    def __init__(self, app: Callable[..., Any]) -> None:
        self._app = app

    async def __call__(self, scope: dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        """Forward a request, or answer with status 413."""
        if scope["type"] == "http" and scope["method"] not in ("GET", "HEAD", "OPTIONS"):
            length = dict(scope["headers"]).get(b"content-length", b"")
            if not length.isdigit() or int(length) > MOST_BYTES or scope["path"].rstrip("/").endswith("/upload"):
                await send({"type": "http.response.start", "status": 413, "headers": [(b"connection", b"close")]})
                await send({"type": "http.response.body", "body": b""})
                return
        await self._app(scope, receive, send)


def build_demo() -> Any:
    """Return the demo as Gradio's Blocks: one request at a time, and few that wait."""
    import gradio as gr

    def shown(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(direction: str, source: str, target: str) -> Any:
            try:
                return function(direction, source or "", target or "")
            except ValueError as error:
                raise gr.Error(html.escape(str(error)), print_exception=False) from None

        return call

    def inputs(example: list[str]) -> list[Any]:
        direction = gr.Radio([*MODELS], value=example[0], label="Direction")
        labels = zip(("Sentence", "Translation"), example[1:], strict=True)
        texts = [gr.Textbox(value, label=label, max_length=MOST_CHARACTERS, lines=2) for label, value in labels]
        return [direction, *texts]

    with gr.Blocks(title="extract-align", analytics_enabled=False) as demo:
        gr.Markdown(
            "# extract-align\nWord alignments from the attention of a small translation model. "
            "Words are what stands between spaces; point at one to see its links."
        )
        with gr.Tab("Links"):
            links_of = inputs(LINKS[0])
            align = gr.Button("Align", variant="primary")
            drawn = gr.HTML()
            pharaoh = gr.Textbox(label="Pharaoh format", buttons=["copy"])
            gr.Examples(LINKS, links_of)
            align.click(shown(show_links), links_of, [drawn, pharaoh], api_name="links")
        with gr.Tab("Tags"):
            tags_of = inputs(TAGS[0])
            transfer = gr.Button("Transfer", variant="primary")
            tagged = gr.Textbox(label="Translation with tags", buttons=["copy"])
            gr.Examples(TAGS, tags_of)
            transfer.click(shown(transfer_tags), tags_of, tagged, api_name="tags")
    return demo.queue(api_open=False, max_size=32, default_concurrency_limit=1)


def main() -> None:
    """Start the demo; it serves no file of this machine, and takes none."""
    from starlette.middleware import Middleware

    for model in MODELS.values():
        aligner_of(model, THRESHOLD)
    build_demo().launch(
        app_kwargs={"middleware": [Middleware(BodyLimit)]},
        footer_links=["api", "gradio"],
        **dict.fromkeys(("share", "ssr_mode", "mcp_server", "enable_monitoring", "run_history"), False),
    )


if __name__ == "__main__":
    main()
