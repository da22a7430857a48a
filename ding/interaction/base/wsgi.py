"""The Flask application of a service.

Before a handler receives a request, the application checks the run token, the route, whether a worker token authorises
it, the announced size, and the checks of the route (shutdown, channel, connection token). Every answer, including
refusals, is JSON of the protocol.
"""

import logging
from functools import partial

from flask import Flask, Response, g, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound, RequestEntityTooLarge

from ding.interaction.base.endpoint import Call, Endpoint, ResponsibleException, Route, answer_response
from ding.interaction.exception.response import ProtocolErrorCode
from ding.interaction.messages import AnswerBody

log = logging.getLogger(__name__)

_REFUSALS = {
    400: (ProtocolErrorCode.REQUEST_INVALID, "The request is no well-formed HTTP."),
    404: (ProtocolErrorCode.ROUTE_NOT_FOUND, "There is no such path."),
    405: (ProtocolErrorCode.METHOD_NOT_ALLOWED, "The path does not know this method."),
    413: (ProtocolErrorCode.BODY_TOO_LARGE, "The body is too large."),
}


def service_app(endpoint: Endpoint) -> Flask:
    """Return the application that serves the routes of ``endpoint``."""
    app = Flask("ding.interaction", static_folder=None)
    app.url_map.merge_slashes = False
    app.before_request(partial(_admit, endpoint))
    app.register_error_handler(ResponsibleException, _refuse)
    app.register_error_handler(HTTPException, _refuse_http)
    app.register_error_handler(Exception, _fail)
    for (method, path), route in endpoint.routes.items():
        view = partial(_answer, route)
        app.add_url_rule(path, f"{method} {path}", view, methods=[method], provide_automatic_options=False)
    return app


def _admit(endpoint: Endpoint) -> None:
    """Refuse a request based on its headers."""
    worker = endpoint.guard.check(request.headers.get("Authorization"))
    if request.routing_exception is not None:
        raise request.routing_exception
    assert request.url_rule is not None
    method, _, path = request.url_rule.endpoint.partition(" ")
    route = endpoint.routes[method, path]
    if worker is not None and not route.for_workers:
        text = f"The token of the {worker.role} {worker.name!r} does not open this."
        raise ResponsibleException(ProtocolErrorCode.RUN_TOKEN_INVALID, text, status_code=403)
    g.call = Call(request, endpoint.limit_of(route), worker)
    if route.check is not None:
        route.check(g.call)


def _answer(route: Route) -> Response:
    answer = route.handler(g.call)
    return answer_response(AnswerBody(True, 0, answer.message, answer.data))


def _refuse(error: ResponsibleException) -> tuple[Response, int]:
    return answer_response(AnswerBody(False, error.code, error.message, error.data)), error.status_code


def _refuse_http(error: HTTPException) -> tuple[Response, int]:
    kinds = {NotFound: 404, MethodNotAllowed: 405, RequestEntityTooLarge: 413}
    status = next((number for kind, number in kinds.items() if isinstance(error, kind)), 400)
    return answer_response(AnswerBody(False, *_REFUSALS[status])), status


def _fail(error: Exception) -> tuple[Response, int]:
    log.error("the handler of %s %s failed", request.method, request.path[:80], exc_info=error)
    text = "A hook of the service failed; its log has the traceback."
    return answer_response(AnswerBody(False, ProtocolErrorCode.INTERNAL_ERROR, text)), 500
