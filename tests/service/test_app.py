"""What the service answers: links, tags, refusals; whoever else asks at the same time, and whatever they send."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from functools import partial
from html import unescape
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra [serve]")

from align import Alignment, Pair
from align.io.session import Session
from align.models.engine.search import on_step
from align.service import gate, rounds
from align.service.gate import BODY_BYTES
from align.service.messages import EXAMPLES, MAX_CHARACTERS
from align.service.work import MAX_TAGS
from tests.service.asked import SECRET, Model, asking, pairs, run, until, work_of


def post(path: str, body: Any, kind: str = "application/json", **named: Any) -> Any:
    """The answer to one request: a body as it is, or what JSON makes of it."""

    async def ask() -> Any:
        async with asking(Model(), **named) as client:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            return await client.post(path, content=content, headers={"content-type": kind})

    return run(ask)


# Replies


def test_links_of_every_status() -> None:
    body = pairs(("a b", "A B"), ("boom", "x"), format="pairs", scores=True)
    scored = {"status": "ok", "links": [[0, 0], [1, 1]], "scores": [0.75, 0.75]}
    assert post("/align", body).json()["pairs"] == [scored, {"status": "failed", "links": [], "scores": []}]
    answer = post("/align", pairs(("a b", "A B"), ("", "x"), ("toolong", "x"), ("boom", "x")))
    statuses = ["ok", "blank", "too long", "failed"]
    links = ["0-0 1-1", "", "", ""]
    replies = [{"status": status, "links": line} for status, line in zip(statuses, links, strict=True)]
    assert (answer.status_code, answer.json()) == (200, {"pairs": replies})


def test_tags() -> None:
    many = "<b/>" * (MAX_TAGS + 1)
    sides = [("a <b>b</b>", "A B"), ("<b>", "A"), (many, "A"), ("toolong <i/>", "A"), ("boom", "A"), ("", "A &lt; B")]
    answer = post("/transfer", pairs(*sides))
    tag = {"tag": "<b>", "source": [1, 2], "target": [[1, 2]], "confidence": 1.0, "remarks": []}
    bad = {"status": "bad tags", "target": None, "tags": []}
    assert answer.json()["pairs"] == [
        {"status": "ok", "target": "A <b>B</b>", "tags": [tag]},
        {**bad, "error": "not well-formed XML: mismatched tag"},
        {**bad, "error": f"{MAX_TAGS + 1} tags, and a sentence may have {MAX_TAGS}"},
        {"status": "too long", "target": None, "tags": []},
        {"status": "failed", "target": None, "tags": []},
        {"status": "blank", "target": "A &lt; B", "tags": []},
    ]


HIDDEN = "\u202e\u2028\u009b\ufffe\u200b\x7f"


def test_replies_hold_nothing_that_acts_on_a_terminal_or_as_a_page() -> None:
    for body, code in (
        (pairs((f"<b id='{HIDDEN}'>a</b>", f"A{HIDDEN}")), 200),
        (pairs((f"</{HIDDEN}>", "<script>alert(1)</script>")), 200),
        (pairs((HIDDEN, HIDDEN), **{HIDDEN: 1}), 422),
        ({"pairs": [{"id": HIDDEN, "source": HIDDEN, "target": "x", HIDDEN: 1}]}, 200),
    ):
        answer = post("/transfer", body)
        assert answer.status_code == code
        assert answer.text.isprintable()
        named = ("content-type", "x-content-type-options", "cache-control")
        assert [answer.headers[name] for name in named] == ["application/json", "nosniff", "no-store"]
    assert post(f"/{HIDDEN[:-1]}", pairs()).text.isprintable()


# Many at once


def test_small_requests_are_gathered_and_large_ones_wait_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "ROUND_PAIRS", 40)
    model = Model()

    async def ask() -> None:
        async with asking(model) as client:
            model.go.clear()
            tasks = [asyncio.create_task(client.post("/align", json=pairs(("first", "x"))))]
            await until(lambda: model.rounds)
            large = [(f"large {n}", "x") for n in range(50)]
            for sides in (large, [("small", "x")] * 3, [("other", "x")]):
                tasks.append(asyncio.create_task(client.post("/align", json=pairs(*sides))))
                await asyncio.sleep(0.05)
            model.go.set()
            replies = [(await task).json()["pairs"] for task in tasks]
            assert [len(one) for one in replies] == [1, 50, 3, 1]
            assert {pair["links"] for one in replies for pair in one} == {"0-0"}

    run(ask)
    first, second, third = model.rounds
    assert first == ["first"]
    assert second[:20] == [f"large {n}" for n in range(16)] + ["small"] * 3 + ["other"]
    assert second[20:] + third == [f"large {n}" for n in range(16, 50)]


def test_an_error_is_its_own_pairs_alone(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "ROUND_WAIT", 0.05)
    model = Model()

    async def ask() -> list[Any]:
        async with asking(model) as client:
            sent = [pairs(("a", "b")), pairs(("boom", "b"), ("c", "d")), pairs(("e", "f"))]
            answers = await asyncio.gather(*(client.post("/align", json=body) for body in sent))
            return [[pair["status"] for pair in answer.json()["pairs"]] for answer in answers]

    assert run(ask) == [["ok"], ["failed", "ok"], ["ok"]]
    assert len(model.rounds[0]) == 4
    assert SECRET not in caplog.text
    assert "Panic" in caplog.text


def test_a_full_queue_refuses_until_there_is_room() -> None:
    model = Model()

    async def ask() -> None:
        async with asking(model, queue_pairs=3, request_pairs=3) as client:
            model.go.clear()
            first = asyncio.create_task(client.post("/align", json=pairs(("a", "b"), ("c", "d"))))
            await until(lambda: model.rounds)
            refused = await client.post("/align", json=pairs(("e", "f"), ("g", "h")))
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
            assert refused.json() == {"error": "too many pairs are waiting"}
            assert (await client.post("/transfer", json=pairs(("e", "f"), ("g", "h")))).status_code == 429
            assert "extract_align_queue_pairs 2.0\n" in (await client.get("/metrics")).text
            model.go.set()
            assert (await first).status_code == 200
            assert (await client.post("/align", json=pairs(*[("e", "f")] * 3))).status_code == 200

    run(ask)


class Raw:
    """A request as a server hands it on, whose client can leave."""

    def __init__(self, client: Any, body: Any, path: str = "/align") -> None:
        self.left, self.sent = asyncio.Event(), list[Any]()
        self._parts = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]
        headers = [(b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b""}
        self.task = asyncio.create_task(client.app(scope, self._receive, self._send))

    async def _receive(self) -> Any:
        if self._parts:
            return self._parts.pop()
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.sent.append(message)


async def until_queued(client: Any, number: int) -> str:
    text = ""
    while f"extract_align_queue_pairs {number}.0\n" not in text:
        text = (await client.get("/metrics")).text
        await asyncio.sleep(0.001)
    return text


def test_whoever_leaves_leaves_the_queue() -> None:
    model = Model()

    async def ask() -> None:
        async with asking(model) as client:
            model.go.clear()
            first = asyncio.create_task(client.post("/align", json=pairs(("first", "b"))))
            await until(lambda: model.rounds)
            second = Raw(client, pairs(("second", "b")))
            await until_queued(client, 2)
            second.left.set()
            await second.task
            assert 'requests_total{code="499",path="/align"} 1.0\n' in await until_queued(client, 1)
            model.go.set()
            assert (await first).status_code == 200
            assert (await client.post("/align", json=pairs(("third", "b")))).status_code == 200

    run(ask)
    assert model.rounds == [["first"], ["third"]]


def test_translations_hold_up_neither_links_nor_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request's translations are cut into rounds, between which others have their turn; links do not wait at all."""
    monkeypatch.setattr("align.service.app.TRANSLATED_CHARACTERS", 1)
    model, aligning = Model(), Model()

    async def ask() -> None:
        work = work_of(aligning)._replace(load_translators=work_of(model).load_translators)
        async with asking(work) as client:
            model.go.clear()
            large = {"pairs": [{"source": "<b>one</b><p>two</p>"}, {"source": "three"}], "tags": "html"}
            tasks = [asyncio.create_task(client.post("/translate", json=large))]
            await until(lambda: model.rounds)
            assert (await client.post("/align", json=pairs(("a", "b")))).status_code == 200
            tasks.append(asyncio.create_task(client.post("/translate", json={"pairs": [{"source": "small"}]})))
            await until_queued(client, 3)
            model.go.set()
            assert [(await task).json()["pairs"][0]["target"] for task in tasks] == ["<b>ONE</b><p>TWO</p>", "SMALL"]

    run(ask)
    assert model.rounds == [["one"], ["two"], ["small"], ["three"]]


def test_a_search_ends_when_its_client_has_left() -> None:
    model, steps = Model(), 0

    def search(given: Iterable[Pair], *callbacks: object) -> Iterator[Alignment]:
        nonlocal steps
        while steps < 10_000:
            steps += 1
            on_step.get()()
            time.sleep(0.001)
        yield from model.translate(given)

    async def ask() -> None:
        session = Session(None, search)  # type: ignore[arg-type]
        async with asking(work_of(model)._replace(load_translators=lambda: (session, session))) as client:
            first = Raw(client, EXAMPLES["/translate"], "/translate")
            await until(lambda: steps)
            first.left.set()
            await first.task
            await until_queued(client, 0)
            before = steps
            await asyncio.sleep(0.1)
            assert steps <= before + 1

    run(ask)
    assert 0 < steps < 10_000


# Limits


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b" " * (BODY_BYTES + 1), "a body has 1,048,576 bytes at most"),
        (pairs(*[("a", "b")] * 3), "3 pairs, and a request has 2 at most"),
    ],
)
@pytest.mark.parametrize("path", EXAMPLES)
def test_limits(body: Any, error: str, path: str) -> None:
    answer = post(path, body, request_pairs=2)
    assert (answer.status_code, answer.json()) == (413, {"error": error})


def test_a_body_of_unknown_length_has_the_same_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "BODY_BYTES", 99)
    sent = 0

    async def parts() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(1000):
            sent += 10
            yield b"0123456789"

    async def ask() -> Any:
        async with asking(Model()) as client:
            return await client.post("/align", content=parts())

    assert run(ask).status_code == 413
    assert sent == 100


def test_who_has_no_token_keeps_nobody_out() -> None:
    """A body that does not end takes nobody's place, where no token is needed to send it."""

    async def ask() -> None:
        async with asking(Model(), token="0123456789abcdef") as client:

            async def forever() -> AsyncIterator[bytes]:
                yield b"{"
                pytest.fail("the body was read")

            assert (await client.post("/health", content=forever())).status_code == 405
            assert (await client.request("GET", "/health", content=forever())).status_code == 200
            assert (await client.post("/align", content=forever())).status_code == 401

    run(ask)


@pytest.mark.parametrize("tags", [[], ["xml", "html"], ["xml", 1], [["xml"]], {"xml": 1}])
def test_tags_that_do_not_go_together(tags: Any) -> None:
    answer = post("/transfer", pairs(("a", "A"), tags=tags))
    choices = "'xml', 'html', 'placeholders', 'xml,placeholders' or 'html,placeholders'"
    assert (answer.status_code, answer.json()["error"]) == (422, f"tags: Input should be {choices}")


# Hostile bodies

DEEP = b"[" * 200_000


@pytest.mark.parametrize(
    ("body", "code", "error"),
    [
        (b"", 422, "the body is no JSON object, or its content-type is not application/json"),
        (b"{", 422, "the body is no JSON: Expecting property name"),
        (DEEP, 400, "There was an error parsing the body"),
        (rb'{"pairs": [], "\ud800": 1}', 422, ""),
        (b'{"pairs": [], "%s": 1}' % (b"x" * 1000), 422, "xxx"),
    ],
    ids=range(5),
)
def test_hostile_bodies(body: bytes, code: int, error: str) -> None:
    answer = post("/align", body)
    assert (answer.status_code, answer.json()["example"]) == (code, EXAMPLES["/align"])
    assert answer.json()["error"].startswith(error)
    assert len(answer.content) < 400
    assert answer.content.isascii()


LONG = "a" * (MAX_CHARACTERS + 1)


@pytest.mark.parametrize(
    ("pair", "error"),
    [
        (b'{"source": "a"}', "target: Field required"),
        (b'{"source": "a", "target": "b", "id": NaN}', "id.str: Input should be a valid string"),
        (
            rb'{"source": "\ud800", "target": "b"}',
            "source: Input should be a valid string, unable to parse raw data as a unicode string",
        ),
        (rb'{"source": "a\nb", "target": "b"}', r"source: String should match pattern '^[^\n]*$'"),
        (b'{"source": "a", "target": "%s"}' % LONG.encode(), "target: String should have at most 5000 characters"),
    ],
    ids=range(5),
)
def test_a_bad_pair_is_its_own_error(pair: bytes, error: str) -> None:
    good = b'{"source": "a", "target": "A", "id": %s}'
    answer = post("/align", b'{"pairs": [%s, %s, %s]}' % (good % b'"x\\n"', pair, good % b"7"))
    first, bad, last = answer.json()["pairs"]
    assert answer.status_code == 200
    assert (first["id"], first["status"], last["id"], last["status"]) == ("x\n", "ok", 7, "ok")
    form = '; a pair is {"source": "Das Haus ist alt.", "target": "The house is old."}'
    assert bad == {"status": "bad pair", "error": error + form, "links": ""}


def test_translations() -> None:
    sources = ["a b", "", "toolong", "boom", "a|<b"]
    body = {
        "pairs": [{"source": source, "id": n} for n, source in enumerate(sources)] + [{"source": "a", "target": "A"}]
    }
    answer = post("/translate", body)
    assert answer.json()["pairs"] == [
        {"id": 0, "status": "ok", "target": "A B", "links": "0-0 1-1"},
        {"id": 1, "status": "blank", "target": "", "links": ""},
        {"id": 2, "status": "too long", "target": None, "links": ""},
        {"id": 3, "status": "failed", "target": None, "links": ""},
        {"id": 4, "status": "ok", "target": "A|<B", "links": "0-0"},
        {
            "status": "bad pair",
            "error": 'target: Extra inputs are not permitted; a pair is {"source": "Das Haus ist alt."}',
            "target": None,
            "links": "",
        },
    ]


@pytest.mark.parametrize("tags", ["xml", ["xml"], ["placeholders", "xml"]])
def test_translations_with_tags(tags: Any) -> None:
    sources = ["a <i>b</i> &lt;", "<b>", "boom", ""]
    answer = post("/translate", {"pairs": [{"source": source} for source in sources], "tags": tags})
    tag = {"tag": "<i>", "source": [1, 2], "target": [[1, 2]], "confidence": 1.0, "remarks": []}
    assert answer.json()["pairs"] == [
        {"status": "ok", "target": "A <i>B</i> &lt;", "tags": [tag]},
        {"status": "bad tags", "error": "not well-formed XML: mismatched tag", "target": None, "tags": []},
        {"status": "failed", "target": None, "tags": []},
        {"status": "blank", "target": "", "tags": []},
    ]


def test_first_translations_load_the_model_once() -> None:
    model, loads = Model(), 0

    def load() -> Any:
        nonlocal loads
        loads += 1
        time.sleep(0.05)
        return work_of(model).load_translators()

    async def ask() -> None:
        async with asking(work_of(model)._replace(load_translators=load)) as client:
            answers = [client.post("/translate", json={"pairs": [{"source": "small"}]}) for _ in range(4)]
            assert [answer.status_code for answer in await asyncio.gather(*answers)] == [200] * 4

    run(ask)
    assert loads == 1


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ModuleNotFoundError("fairseq is not installed"), "fairseq is not installed"),
        (ValueError(SECRET), "the model cannot translate"),
    ],
)
def test_a_model_that_cannot_translate(error: Exception, message: str, caplog: pytest.LogCaptureFixture) -> None:
    tried = 0

    def fail() -> Any:
        nonlocal tried
        tried += 1
        raise error

    async def ask() -> None:
        async with asking(work_of(Model())._replace(load_translators=fail)) as client:
            answer = await client.post("/translate", json=EXAMPLES["/translate"])
            assert (answer.status_code, answer.json()) == (501, {"error": message})
            assert (await client.post("/translate", json=EXAMPLES["/translate"])).status_code == 501
            assert (await client.post("/align", json=EXAMPLES["/align"])).status_code == 200

    run(ask)
    assert SECRET not in caplog.text
    assert tried == 2


def test_only_json_is_read() -> None:
    """So that no page of another site can have a browser send pairs here without asking first."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        assert post("/align", pairs(("a", "b")), kind).status_code == 422


def test_an_error_of_ours_tells_nothing(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, **named: Any) -> Any:
        raise ValueError(SECRET)

    monkeypatch.setattr("align.service.work.Inline.place", fail)
    answer = post("/transfer", pairs((SECRET, SECRET)))
    assert (answer.status_code, answer.json()) == (500, {"error": "an error of the service's own"})
    assert SECRET not in caplog.text
    assert "ValueError while answering a request" in caplog.text


# Who asks, and what is said of the service


def test_a_token() -> None:
    async def ask() -> None:
        async with asking(Model(), token="0123456789abcdef") as client:
            right = {"authorization": "bearer 0123456789abcdef"}  # the scheme in any case
            for headers in ({}, {"authorization": "Bearer 0123456789abcdeg"}, {"authorization": "0123456789abcdef"}):
                for path in ("/align", "/metrics", "/openapi.json", "/nowhere"):
                    refused = await client.get(path, headers=headers)
                    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
                    assert refused.json() == {"error": "a token is needed: Authorization: Bearer TOKEN"}
            assert (await client.get("/health")).status_code == 200
            assert (await client.get("/metrics", headers=right)).status_code == 200
            assert (await client.post("/align", json=pairs(("a", "b")), headers=right)).status_code == 200

    run(ask)


def test_health_and_description() -> None:
    async def ask() -> None:
        async with asking(Model()) as client:
            health = {"ready": True, "models": ["model"], "signature": "signature"}
            assert (await client.get("/health")).json() == health
            described = (await client.get("/openapi.json")).json()
            assert [*described["paths"]] == [*EXAMPLES, "/health", "/metrics", "/"]
            schemas = described["components"]["schemas"]
            for name, sides in (("AlignRequest", ["source", "target"]), ("TranslateRequest", ["source"])):
                items = schemas[name]["properties"]["pairs"]["items"]
                pair = schemas.get(items.get("$ref", "").rpartition("/")[2], items)  # of other versions of pydantic
                assert ([*pair["properties"]], pair["required"]) == (["id", *sides], sides)
            assert schemas["AlignRequest"]["example"] == EXAMPLES["/align"]
            about = set((await client.get("/")).json()["requests"])
            gets = ("/docs", "/health", "/metrics", "/openapi.json")
            assert about == {*(f"POST {path}" for path in EXAMPLES), *(f"GET {path}" for path in gets)}
            assert (await client.get("/redoc")).json() == {"error": "no such path; GET / lists them"}
            assert (await client.get("/align")).json() == {"error": "the path takes POST requests only"}

    run(ask)


def test_the_page_of_requests_needs_no_script_and_no_other_server() -> None:
    async def ask() -> Any:
        async with asking(Model(), token="0123456789abcdef") as client:
            return await client.get("/docs", headers={"host": "a'<b>"})

    answer = run(ask)
    assert (answer.status_code, answer.headers["content-security-policy"]) == (200, "default-src 'none'")
    tags = set(re.findall(r"<[^>]*>", answer.text))
    assert tags == {
        "<!doctype html>", "<meta charset=utf-8>", "<title>", "</title>", "<h1>", "</h1>", "<h2>", "</h2>",
        "<p>", "</p>", "<pre>", "</pre>", "<li>", "<code>", "</code>",
    }  # fmt: skip
    text = unescape(answer.text)
    for path, body in EXAMPLES.items():
        assert f"<h2>POST {path}</h2>" in text
        assert f"<pre>curl --json '{json.dumps(body)}' " in text
    assert "<li><code>scores</code> whether each pair has the scores of its links" in text


@pytest.mark.parametrize(
    ("host", "code"),
    [
        *((name, 200) for name in ("localhost:8000", "LOCALHOST", "127.0.0.1:80", "[::1]:8000", "127.0.0.2", "")),
        *((name, 200) for name in ("align.example.org", "align.example.org.:443")),
        *(
            (name, 421)
            for name in ("evil.example", "localhost.evil.example:8000", "::1", "127.0.0.1.evil.example", "]")
        ),
    ],
)
def test_a_local_service_refuses_names_of_others(host: str, code: int) -> None:
    """A page of `evil.example`, whose name now leads to this machine, is of the same origin for a browser."""

    async def ask(server: Any, **named: Any) -> int:
        async with asking(Model(), origins=["https://align.example.org:8443"], **named) as client:
            sent: list[Any] = []
            headers = [(b"host", host.encode())]
            scope = {"type": "http", "method": "GET", "path": "/health", "headers": headers, "query_string": b""}

            async def send(message: Any) -> None:
                sent.append(message)

            await client.app(scope | server, None, send)  # type: ignore[attr-defined]
            return int(sent[0]["status"])

    assert run(partial(ask, {"server": ("127.0.0.2", 8000)})) == code
    for server in ({"server": ("192.0.2.1", 8000)}, {"server": None}, {}):
        assert run(partial(ask, server)) == 200
    assert run(partial(ask, {"server": ("::1", 8000)}, token="0123456789abcdef")) == 200  # which the page does not know


def test_each_request_has_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "align")

    async def ask() -> None:
        async with asking(Model(), token="0123456789abcdef") as client:
            right = {"authorization": "Bearer 0123456789abcdef"}
            await client.post(f"/align?{SECRET}", json=pairs((SECRET, "b")), headers=right)
            await client.get("/%1b[31m%0a%e2%80%ae" + "x" * 999)
            await client.get("/health")

    run(ask)
    lines = [re.fullmatch(r"(.*) \d+ ms", record.getMessage()) for record in caplog.records if "ms" in record.msg]
    shown = r"GET /\x1b[31m\n\u202e" + "x" * 999
    assert [line and line[1] for line in lines] == ["POST /align 200", f"{shown[:199]}… 401", "GET /health 200"]
    assert SECRET not in caplog.text
    assert "0123456789abcdef" not in caplog.text


def test_pages_of_other_sites_need_permission() -> None:
    """In a browser: a preflight request asks, without the token; then the answer names the site."""
    site = "http://localhost:3000"
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type"}

    async def ask(origins: Sequence[str], origin: str) -> list[tuple[int, str | None]]:
        async with asking(Model(), token="0123456789abcdef", origins=origins) as client:
            named = {"origin": origin, "authorization": "Bearer 0123456789abcdef"}
            replies = [await client.options("/align", headers={"origin": origin, **asked})]
            replies += [await client.post("/align", json=EXAMPLES["/align"], headers=named)]
            return [(reply.status_code, reply.headers.get("access-control-allow-origin")) for reply in replies]

    assert run(partial(ask, ["http://a.example", site], site)) == [(200, site), (200, site)]
    for origins, origin, code in (([site], f"{site}0", 400), ([], site, 401)):
        assert run(partial(ask, origins, origin)) == [(code, None), (200, None)]


def test_metrics() -> None:
    async def ask() -> str:
        async with asking(Model(), queue_pairs=1234) as client:
            await client.post("/align", json=pairs(("a", "b"), ("", ""), ("boom", "c")))
            await client.post("/transfer", json=pairs(("<a", "b")))
            for n in range(3):
                await client.get(f"/{n}")
            answer = await client.get("/metrics")
            assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
            return str(answer.text)

    text = run(ask)
    for line in (
        'extract_align_requests_total{code="200",path="/align"} 1.0',
        'extract_align_requests_total{code="404",path="other"} 3.0',
        'extract_align_pairs_total{status="ok"} 1.0',
        'extract_align_pairs_total{status="bad tags"} 1.0',
        "extract_align_round_pairs_total 3.0",
        "extract_align_queue_pairs 0.0",
        "extract_align_queue_limit_pairs 1234.0",
        'extract_align_request_seconds_bucket{le="+Inf"} 5.0',
        "extract_align_request_seconds_count 5.0",
    ):
        assert f"\n{line}\n" in text
