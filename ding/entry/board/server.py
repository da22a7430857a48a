"""Web page of ``ding board``, and its JSON data."""

import contextlib
import json
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from flask import Flask, Response, abort, request, send_file
from waitress.server import create_server

from ding.entry.board.curves import AXES, group_curves, run_curves
from ding.entry.board.runs import RETURN_METRICS, BoardRun, BoardRuns
from ding.entry.view.status import finite
from ding.interaction.base.server import listen
from ding.interaction.base.token import same_token

_STATIC = Path(__file__).parent / "static"
_COOKIE = "ding_board"
_LOG_BYTES = 64 * 1024
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def board_app(folders: Sequence[Path], token: str, hosts: Sequence[str] = ("127.0.0.1", "localhost")) -> Flask:
    """Return the WSGI application.

    Each request needs the token: in the link printed by ``ding board``, which stores it in a cookie, or as
    ``Authorization: Bearer``.

    Args:
        folders: Folders to search for runs, at each refresh.
        token: Secret of the page.
        hosts: Allowed host names of the page; others are rejected, so that foreign names cannot be directed here.
    """
    app = Flask(__name__, static_folder=str(_STATIC), static_url_path="/static")
    app.before_request(_Guard(token, hosts).check)
    app.after_request(_secured)
    answers = _Answers(BoardRuns(folders))
    app.add_url_rule("/", "page", lambda: send_file(_STATIC / "index.html"))
    app.add_url_rule("/api/runs", "runs", answers.runs)
    app.add_url_rule("/api/curves", "curves", answers.curves)
    app.add_url_rule("/api/configs", "configs", answers.configs)
    app.add_url_rule("/api/run/<run_id>", "run", answers.run)
    app.add_url_rule("/api/run/<run_id>/log/<path:name>", "log", answers.log)
    app.add_url_rule("/api/run/<run_id>/video/<path:name>", "video", answers.video)
    return app


class _Guard:
    """Rejects requests without the token."""

    def __init__(self, token: str, hosts: Sequence[str]) -> None:
        self._token = token
        self._hosts = hosts

    def check(self) -> Response | None:
        if request.host.rpartition(":")[0] not in self._hosts and request.host not in self._hosts:
            abort(403, "this name is not the board's")
        given = request.args.get("token")
        if given is not None and request.path == "/" and same_token(given, self._token):
            # Remove the token from the address, and thus from the browser's history and from screenshots.
            answer = Response(status=302, headers={"Location": "/"})
            answer.set_cookie(_COOKIE, self._token, httponly=True, samesite="Strict")
            return answer
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not any(same_token(one, self._token) for one in (bearer, request.cookies.get(_COOKIE, ""))):
            abort(403, "open the link that `ding board` printed: it holds the token")
        return None


def _secured(response: Response) -> Response:
    response.headers.update(_HEADERS)
    return response


class _Answers:
    """Answers to the requests of the page."""

    def __init__(self, runs: BoardRuns) -> None:
        self._runs = runs

    def runs(self) -> Response:
        found = self._runs.refreshed()
        metrics = {metric for run in found for metric in run.metrics}
        first = [metric for metric in RETURN_METRICS if metric in metrics]
        listed = [*first, *sorted(metrics - set(first))]
        return _json({"runs": [run.summary() for run in found], "metrics": listed, "unread": self._runs.unread})

    def curves(self) -> Response:
        metric, axis = request.args.get("metric", ""), request.args.get("axis", "step")
        if axis not in AXES:
            abort(400, f"axis={axis}: expected one of {', '.join(AXES)}")
        curves_of: Callable[..., Any] = group_curves if request.args.get("mean") == "1" else run_curves
        return _json({"curves": curves_of(self._asked(), metric, axis)})

    def configs(self) -> Response:
        return _json({run.id: run.flat_config() for run in self._asked()})

    def run(self, run_id: str) -> Response:
        return _json(self._one(run_id).detail())

    def log(self, run_id: str, name: str) -> Response:
        path = self._one(run_id).log_file(name) or abort(404, "there is no such log")
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - _LOG_BYTES))
            return Response(file.read(), mimetype="text/plain")

    def video(self, run_id: str, name: str) -> Response:
        return send_file(self._one(run_id).video_file(name) or abort(404, "there is no such video"), conditional=True)

    def _one(self, run_id: str) -> BoardRun:
        return self._runs.get(run_id) or abort(404, "there is no such run")

    def _asked(self) -> list[BoardRun]:
        ids = set(request.args.get("runs", "").split(","))
        return [run for run in self._runs.refreshed() if run.id in ids]


def serve_board(folders: Sequence[Path], host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve the page until the process is interrupted.

    Args:
        folders: Folders to search for runs.
        host: Address to listen on.
        port: Port; 0 for a free one.
        ready: Called with the link once the page can be opened.

    Raises:
        OSError: The address or the port is unavailable.
    """
    token = secrets.token_urlsafe(24)
    names = ("127.0.0.1", "localhost", host)
    app = board_app([folder.resolve() for folder in folders], token, names)
    with contextlib.closing(listen(host, port)) as listening:
        server = create_server(app, sockets=[listening], clear_untrusted_proxy_headers=False, ident=None)
        ready(f"http://{host}:{listening.getsockname()[1]}/?token={token}")
        server.run()  # until an interrupt, which it handles


def _json(content: object) -> Response:
    return Response(json.dumps(finite(content), default=str), mimetype="application/json")
