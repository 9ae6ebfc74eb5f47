"""The files of Hugging Face's client: the token that it is given, and the models that it leaves in memory."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from pathlib import Path

from .context import Context
from .desired_spec import Spec

ANSWER_S = 30.0
TOKEN_FILE = "huggingface-token"  # noqa: S105  a name, not a token
MODEL = "models--"


class SecretError(Exception):
    """The secret with the Hugging Face token cannot be read; says why."""


def token_file(run_dir: Path, name: str) -> Path:
    """Return the path of the file with the value of the secret `name`: in memory, for root alone.

    Each secret has a file of its own, so that preparing one specification does not change the token of another.
    """
    return run_dir / f"{TOKEN_FILE}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def token_files(run_dir: Path) -> list[Path]:
    """Return the token files of all secrets, also those that earlier versions of this program wrote."""
    return sorted(run_dir.glob(f"{TOKEN_FILE}*"))


def secret(context: Context, name: str) -> str:
    """Return the value of a secret, its newest version unless `name` has one. Raises SecretError, TransientError."""
    version = name if "/versions/" in name else f"{name}/versions/latest"
    url = f"{context.settings.secrets_url}/v1/{version}:access"
    reply = context.metadata.ask_google("GET", url, timeout_s=ANSWER_S)
    if reply.status == 200:
        try:
            return base64.b64decode(json.loads(reply.body)["payload"]["data"]).decode().strip()
        except (ValueError, KeyError, TypeError):
            raise SecretError(f"{version} holds no text.") from None
    fix = {
        403: "Grant the slice's service account roles/secretmanager.secretAccessor on it.",
        404: "It does not exist, or has no version.",
    }.get(reply.status, "")
    raise SecretError(f"The secret {version} cannot be read (HTTP {reply.status}). {fix}")


def unnamed_models(spec: Spec, memory: Path) -> list[Path]:
    """Return the folders of models that the client has kept in `memory` and the command of `spec` does not name."""
    home = Path(os.path.normpath(spec.env.get("HF_HOME", "/")))
    if memory not in home.parents:
        return []
    command = " ".join(spec.argv)
    unnamed = []
    for folder in sorted((home / "hub").glob(f"{MODEL}*")):
        repository = folder.name.removeprefix(MODEL).replace("--", "/")
        # As a whole: a longer name that begins or ends with it is another model's.
        if not re.search(rf"(?<![\w./-]){re.escape(repository)}(?![\w.-])", command):
            unnamed.append(folder)
    return unnamed
