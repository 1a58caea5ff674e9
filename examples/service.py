"""A web service, for any WSGI server: pairs of sentences in, their links out, as JSON.

Start it in one of two ways, and ask:

    gunicorn --chdir examples --preload --workers 2 service:app    processes that share the model's memory
    gunicorn --chdir examples --threads 4 service:app              threads that share a model

    curl -d '[["Das Haus ist alt.", "The house is old."]]' http://127.0.0.1:8000/
"""

import json
from collections.abc import Callable, Iterable
from typing import Any

from align import load

MOST_BYTES = 1 << 20
WANTED = 'not a list of pairs in JSON, such as [["Das Haus", "The house"]]'

# Fixed, so that links depend on nothing but their pair, however many are sent; one that is too long has none.
aligner = load("de-en", too_long="blank").fixed()


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer one request."""
    answer: Any
    length = int(environ.get("CONTENT_LENGTH") or 0)
    if length > MOST_BYTES:
        status, answer = "413 Content Too Large", {"error": f"more than {MOST_BYTES:,} bytes"}
    else:
        try:
            pairs = json.loads(environ["wsgi.input"].read(length))
            if not isinstance(pairs, list):
                raise TypeError(WANTED)
            status, answer = "200 OK", [alignment.to_dict() for alignment in aligner(pairs)]
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
            status, answer = "400 Bad Request", {"error": WANTED}
        except (TypeError, ValueError) as error:  # no list, or something in it is not a pair
            status, answer = "400 Bad Request", {"error": str(error)}
    start_response(status, [("Content-Type", "application/json")])
    return [json.dumps(answer).encode()]
