"""What changes something is shown first: a code in the preview is what a second call confirms it with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from infra.errors import SettingsError
from infra.ops.answers.answer_base import JsonAnswer
from infra.ops.mcp_server.tools import Tool

_LENGTH = 12


def previewed_or_done(tool: Tool, arguments: Mapping[str, Any], confirm: str) -> dict[str, Any]:
    """Return what a deed would change, with the code that confirms it; with that code, do it and return what was done.

    The code holds for these arguments and this preview: when either changes, another code is due. Raises SettingsError for
    a code that is not that of the preview, Gemma4Error where the deed fails.
    """
    preview = _data(tool.call(**arguments, **{tool.applies: False}))
    code = _code(tool, arguments, preview)
    if not confirm:
        return {"done": False, "preview": preview, "confirm": code}
    if confirm != code:
        fact = "is not the code of this change as it stands now."
        fix = "Call it without confirm, show the preview to your user, and confirm with the code in it."
        raise SettingsError.of("confirm", fact, "Nothing was changed.", fix)
    return {"done": True, "result": _data(tool.call(**arguments, **{tool.applies: True}))}


def _code(tool: Tool, arguments: Mapping[str, Any], preview: Mapping[str, Any]) -> str:
    said = json.dumps([tool.name, dict(arguments), preview], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()[:_LENGTH]


def _data(answer: JsonAnswer) -> dict[str, Any]:
    return answer.model_dump(mode="json", by_alias=True)
