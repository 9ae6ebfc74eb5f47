"""What looks like a mistake and is none: it is planned without a word, and the settings are what was meant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.messages.case import Case, written

PLAIN = "config:\n  gemma4:model: gemma-4-12b-it-qat-w4a16\n  gemma4:accelerator: l4\n"


def _file(title: str, file: str) -> tuple[Case, Mapping[str, Any]]:
    return Case("plan x", 0, title=title, file=file), {"accelerator": "l4"}


def _below(title: str, body: str, **settings: Any) -> tuple[Case, Mapping[str, Any]]:
    return written(title, 0, (), body), {path.replace("__", "."): value for path, value in settings.items()}


ACCEPTED: tuple[tuple[Case, Mapping[str, Any]], ...] = (
    (Case("plan l4 --set 'serving.maxModelLen = 4096'", 0), {"serving.max_model_len": 4096}),
    (Case("plan l4 --set serving.maxModelLen=4096 --set serving.maxModelLen=2048", 0), {"serving.max_model_len": 2048}),
    (Case("plan l4 --set gemma4:serving.maxModelLen=4096", 0), {"serving.max_model_len": 4096}),
    (Case("plan l4 --set serving.maxModelLen=16_384", 0), {"serving.max_model_len": 16384}),
    (Case("plan l4 --set serving.maxModelLen=0x4000", 0), {"serving.max_model_len": 16384}),
    (Case("plan l4 --set serving.maxModelLen=null", 0), {"serving.max_model_len": 8192}),
    (Case("plan l4 --set serving.tools=yes", 0), {"serving.tools": True}),
    (Case("plan l4 --set 'vllmArgs={--max-log-len: 10}'", 0), {"vllm_args": {"--max-log-len": 10}}),
    (Case("plan l4 --set weights.revision=main", 0), {"weights.revision": "main"}),
    (Case("plan l4 --set serving.modalities.audio=1", 0), {"serving.modalities.audio": 1}),
    (Case("plan v6e4 --set tpu.provisioning=spot", 0), {"tpu.provisioning": "spot"}),
    (Case("plan v6e4 --set region=europe-west4", 0), {"region": "europe-west4"}),
    (Case("plan l4", 0, env={"GEMMA4_MODEL": "x", "GEMMA4_SERVING": "y"}), {"model": "gemma-4-12b-it-qat-w4a16"}),
    (Case("plan l4", 0, env={"COLUMNS": "0"}), {}),
    (Case("plan l4", 0, env={"COLUMNS": "10"}), {}),
    (Case("plan l4", 0, env={"COLUMNS": "100000"}), {}),
    _file("anchors used many times", f"x: &a [z, z]\ny: &b [*a, *a]\nw: &c [*b, *b]\nv: &d [*c, *c]\n{PLAIN}"),
    _file("a file that begins with a byte order mark", "\ufeff" + PLAIN),
    _file("lines that end as on Windows", PLAIN.replace("\n", "\r\n")),
    _file("lines that end as on an old Macintosh", PLAIN.replace("\n", "\r")),
    _file("environments of Pulumi's", f"environment:\n  - shared\n{PLAIN}"),
    _file("the salt of Pulumi's secrets", f"encryptionsalt: v1:abc=\n{PLAIN}"),
    _below("a dotted key", "gemma4:serving.maxModelLen: 4096", serving__max_model_len=4096),
    _below("a dotted key with text", 'gemma4:serving.maxModelLen: "4096"', serving__max_model_len=4096),
    _below("a number in quotes", 'gemma4:serving: {maxModelLen: "4096"}', serving__max_model_len=4096),
    _below("a group as JSON", "gemma4:serving: '{\"maxModelLen\": 4096}'", serving__max_model_len=4096),
    _below("yes and no", "gemma4:serving: {tools: yes, reasoning: no}", serving__tools=True, serving__reasoning=False),
    _below(
        "a revision that only looks like a number", "gemma4:weights: {revision: 12e4567}", weights__revision="12e4567"
    ),
    _below("a group without members", "gemma4:serving:", serving__max_model_len=8192),
    _below("a token as a secret", "gemma4:hfToken: {secure: AAABADr0}", hf_token=True),
)
