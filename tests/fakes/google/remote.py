"""The same levers as `FakeGoogle`, pulled from another process through `/_fake/…`."""

from __future__ import annotations

from typing import Any

from requests import Response, get, post

TIMEOUT_S = 10


class RemoteFake:
    """`url` is the one that `python -m tests.fakes.google` prints."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    def fault(self, method: str, path: str, **fields: Any) -> None:
        self._post("fault", {"method": method, "path": path, **fields})

    def call(self, target: str, *args: Any, **fields: Any) -> Any:
        """A product's control by name: `call("tpu.advance", "slice-blue", to="SUSPENDED")`."""
        return self._post("call", {"target": target, "args": {"args": list(args), **fields}})["result"]

    def clear(self) -> None:
        """Forget requests, unknown paths and faults; keep the resources."""
        self._post("clear", {})

    def state(self) -> dict[str, Any]:
        return self._get("state")

    def requests(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._get("requests")["requests"]
        return found

    def leftovers(self) -> list[str]:
        found: list[str] = self._get("leftovers")["leftovers"]
        return found

    def unknown(self) -> list[str]:
        found: list[str] = self._get("unknown")["unknown"]
        return found

    def endpoints(self) -> dict[str, str]:
        return self._get("endpoints")

    def _get(self, what: str) -> dict[str, Any]:
        response = get(f"{self.url}/_fake/{what}", timeout=TIMEOUT_S)
        return self._checked(response)

    def _post(self, what: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._checked(post(f"{self.url}/_fake/{what}", json=body, timeout=TIMEOUT_S))

    def _checked(self, response: Response) -> dict[str, Any]:
        if not response.ok:
            raise AssertionError(f"the fake refused: {response.text}")
        body: dict[str, Any] = response.json()
        return body
