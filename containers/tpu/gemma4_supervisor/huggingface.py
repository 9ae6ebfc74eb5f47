"""What Hugging Face's client is given and what it leaves: a token in a file, and models in memory."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from pathlib import Path

from containers.shared.web import call

from .context import Context
from .desired_spec import Spec

ANSWER_S = 30.0
TOKEN_FILE = "huggingface-token"  # noqa: S105  a name, not a token
MODEL = "models--"


class SecretError(Exception):
    """The Hugging Face token cannot be had."""


def token_file(run_dir: Path, name: str) -> Path:
    """Where the value of the secret `name` lies for a container: in memory, for root alone.

    Each secret has a file of its own, so that what is fetched for one specification changes nothing for another.
    """
    return run_dir / f"{TOKEN_FILE}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def token_files(run_dir: Path) -> list[Path]:
    """Those of all secrets, also as earlier versions of this program named them."""
    return sorted(run_dir.glob(f"{TOKEN_FILE}*"))


def secret(context: Context, name: str) -> str:
    """The value of a secret, its newest version unless `name` has one. Raises SecretError, TransientError."""
    version = name if "/versions/" in name else f"{name}/versions/latest"
    headers = {"Authorization": f"Bearer {context.metadata.token()}"}
    reply = call("GET", f"{context.settings.secrets_url}/v1/{version}:access", timeout_s=ANSWER_S, headers=headers)
    if reply.status == 200:
        try:
            return base64.b64decode(json.loads(reply.body)["payload"]["data"]).decode().strip()
        except (ValueError, KeyError, TypeError):
            raise SecretError(f"{version} holds no text.") from None
    if reply.status == 401:
        context.metadata.forget_token()
    fix = {
        403: "Grant the slice's service account roles/secretmanager.secretAccessor on it.",
        404: "It does not exist, or has no version.",
    }.get(reply.status, "")
    raise SecretError(f"The secret {version} cannot be read (HTTP {reply.status}). {fix}")


def unnamed_models(spec: Spec, memory: Path) -> list[Path]:
    """Folders of models that the client has kept in `memory` and that the command of `spec` does not name."""
    home = Path(os.path.normpath(spec.env.get("HF_HOME", "/")))
    if memory not in home.parents:
        return []
    command = " ".join(spec.argv)
    folders = sorted((home / "hub").glob(f"{MODEL}*"))
    return [folder for folder in folders if not _is_named(_repository(folder), command)]


def _repository(folder: Path) -> str:
    return folder.name.removeprefix(MODEL).replace("--", "/")


def _is_named(repository: str, command: str) -> bool:
    """As a whole: what begins or ends with it is another one."""
    return re.search(rf"(?<![\w./-]){re.escape(repository)}(?![\w.-])", command) is not None
