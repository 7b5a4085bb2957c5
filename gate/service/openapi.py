"""The description of the REST API (OpenAPI 3.1): what ``GET /openapi.json`` serves and the tests hold the service to."""

from __future__ import annotations

from typing import Any

from gate import __version__
from gate.domain.plan import Mode
from gate.domain.refs import MAX_NAME, NAME
from gate.domain.report import State
from gate.evidence.pack import MEDIA_TYPE
from gate.service.store import JobState, Trigger

REPOSITORY = r"(?!\.{1,2}/)[A-Za-z0-9._-]{1,100}/(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}"
SHA = "[0-9a-f]{40}"
REF = f"refs/(heads|tags)/{NAME}"
MODES = tuple(mode.value for mode in Mode)


def _json(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


_ERROR = _ref("Error")
_TIME = {"type": ["string", "null"], "format": "date-time"}
_UNKNOWN = {"401": _json("No token that holds", _ERROR)}
_MISSING = {**_UNKNOWN, "404": _json("Not there, or outside of the token's scope", _ERROR)}
_ID = {
    "name": "id",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
}

DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {
        "title": "Skill Gate service",
        "version": __version__,
        "description": "Start an audit of a repository's skills or of one pull request's head, see how it goes, get the sealed "
        "bundle. Tokens are made by `skill-gate token`; each reaches the repositories in its scope only.",
    },
    "security": [{"token": []}],
    "paths": {
        "/api/v1/audits": {
            "post": {
                "operationId": "startAudit",
                "summary": "Start an audit",
                "description": "Without pull_request: of the default branch, or of ref. With it: of that pull request's head, a "
                "fork's too, provided that it still is the commit named by sha. The policy of the base branch holds.",
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": _ref("AuditRequest")}},
                },
                "responses": {
                    "202": _json("Taken, or taken before under this key", _ref("Audit")),
                    "400": _json("No JSON object", _ERROR),
                    **_UNKNOWN,
                    "403": _json("The token may not do that", _ERROR),
                    "408": _json("The body did not arrive in time", _ERROR),
                    "413": _json("The body is too large", _ERROR),
                    "415": _json("Not application/json", _ERROR),
                    "422": _json("A field is not as described here", _ERROR),
                    "503": _json("Too much waits", _ERROR),
                },
            },
            "get": {
                "operationId": "listAudits",
                "summary": "Audits in the token's scope, the newest first",
                "parameters": [
                    {"name": "repository", "in": "query", "schema": {"type": "string", "pattern": f"^{REPOSITORY}$"}},
                    {"name": "state", "in": "query", "schema": {"enum": [state.value for state in JobState]}},
                    {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 200}},
                    {
                        "name": "before",
                        "in": "query",
                        "description": "Seconds since 1970",
                        "schema": {"type": "number", "minimum": 0, "maximum": 100000000000},
                    },
                ],
                "responses": {
                    "200": _json(
                        "Some of them",
                        {
                            "type": "object",
                            "required": ["audits"],
                            "properties": {"audits": {"type": "array", "items": _ref("Audit")}},
                        },
                    ),
                    **_MISSING,
                    "422": _json("A parameter is not as described here", _ERROR),
                },
            },
        },
        "/api/v1/audits/{id}": {
            "parameters": [_ID],
            "get": {
                "operationId": "showAudit",
                "summary": "How an audit stands",
                "responses": {"200": _json("It", _ref("Audit")), **_MISSING},
            },
            "delete": {
                "operationId": "cancelAudit",
                "summary": "End an audit",
                "responses": {
                    "202": _json("It is told to end", _ref("Audit")),
                    **_MISSING,
                    "403": _json("The token may only read", _ERROR),
                    "409": _json("It has ended already", _ERROR),
                },
            },
        },
        "/api/v1/audits/{id}/events": {
            "parameters": [_ID],
            "get": {
                "operationId": "auditEvents",
                "summary": "What an audit says while it is under way",
                "parameters": [
                    {
                        "name": "after",
                        "in": "query",
                        "description": "The number of the last event that was seen",
                        "schema": {"type": "integer", "minimum": 0, "maximum": 4611686018427387903},
                    }
                ],
                "responses": {
                    "200": _json(
                        "In order, at most 500",
                        {
                            "type": "object",
                            "required": ["events"],
                            "properties": {"events": {"type": "array", "items": _ref("Event")}},
                        },
                    ),
                    **_MISSING,
                    "422": _json("after is no number", _ERROR),
                },
            },
        },
        "/api/v1/audits/{id}/bundle": {
            "parameters": [_ID],
            "get": {
                "operationId": "auditBundle",
                "summary": "The sealed bundle, packed",
                "responses": {
                    "200": {"description": "The bundle", "content": {MEDIA_TYPE: {"schema": {"type": "string"}}}},
                    **_MISSING,
                    "409": _json("The audit is not done", _ERROR),
                },
            },
        },
    },
    "components": {
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        "schemas": {
            "AuditRequest": {
                "type": "object",
                "required": ["repository"],
                "additionalProperties": False,
                "dependentRequired": {"pull_request": ["sha"], "sha": ["pull_request"]},
                "properties": {
                    "repository": {"type": "string", "pattern": f"^{REPOSITORY}$"},
                    "pull_request": {"type": "integer", "minimum": 1, "maximum": 1000000000},
                    "sha": {"type": "string", "pattern": f"^{SHA}$", "description": "The one head that may be run"},
                    "ref": {
                        "type": "string",
                        "pattern": f"^{REF}$",
                        "maxLength": MAX_NAME,
                        "description": "The full name of a branch or a tag, such as refs/heads/release/1.2 or refs/tags/v1.2: "
                        "every name that git takes (git-check-ref-format) and that begins with no dash",
                    },
                    "mode": {"enum": list(MODES)},
                    "paths": {
                        "type": "array",
                        "maxItems": 100,
                        "items": {"type": "string", "pattern": "^[A-Za-z0-9._][A-Za-z0-9._/-]{0,400}$"},
                    },
                    "key": {
                        "type": "string",
                        "pattern": "^[A-Za-z0-9._-]{1,100}$",
                        "description": "Asked twice with the same key by the same token, one audit is made",
                    },
                },
            },
            "Audit": {
                "type": "object",
                "required": ["id", "repository", "state", "result", "verdicts", "created"],
                "properties": {
                    "id": {"type": "string"},
                    "repository": {"type": "string"},
                    "state": {"enum": [state.value for state in JobState]},
                    "reason": {"type": "string"},
                    "trigger": {"enum": [trigger.value for trigger in Trigger]},
                    "pull_request": {"type": ["integer", "null"]},
                    "head_sha": {"type": ["string", "null"]},
                    "created": _TIME,
                    "started": _TIME,
                    "ended": _TIME,
                    "parts": {"type": "integer"},
                    "parts_done": {"type": "integer"},
                    "result": {"enum": [*(state.value for state in State), None]},
                    "headline": {"type": "string"},
                    "verdicts": {"type": "object", "additionalProperties": {"type": "string"}},
                    "calls": {"type": "integer"},
                    "cost_usd": {"type": "number"},
                },
            },
            "Event": {
                "type": "object",
                "required": ["number", "at", "kind", "text"],
                "properties": {
                    "number": {"type": "integer"},
                    "at": _TIME,
                    "kind": {"enum": ["step", "line", "state"]},
                    "text": {"type": "string"},
                },
            },
            "Error": {
                "type": "object",
                "required": ["error"],
                "properties": {"error": {"type": "string"}},
            },
        },
    },
}
