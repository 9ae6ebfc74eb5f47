"""Takes secrets out of text that servers, logs and pages say: tokens and keys, wherever they stand."""

from __future__ import annotations

import re

_SECRETS = re.compile(
    r"hf_[A-Za-z0-9]{8,}"
    r"|ya29\.[\w.-]+"  # Google's access tokens
    r"|eyJ[\w-]+\.[\w-]+\.[\w-]*"  # identity tokens, as all JSON web tokens
    r"|AIza[\w-]{30,}"  # Google's API keys
    r"|(?i:bearer)\s+[^\s\"']+"
    r"|(?i:(?<=api_key=)|(?<=api-key=)|(?<=api-key )|(?<=api_key': )|(?<=api_key\": ))[\[('\"]*(?!None|null)[^\s,\])'\"]+"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
    re.DOTALL,
)


def without_secrets(text: str) -> str:
    """Return the text with every token and key replaced by `[secret]`."""
    return _SECRETS.sub("[secret]", text)
