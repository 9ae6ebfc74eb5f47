"""`/oauth2/token`, where google-auth trades a service account's key or a person's refresh token for tokens."""

from __future__ import annotations

import base64
import json
from typing import Any, ClassVar
from urllib.parse import parse_qsl

from tests.fakes.google.iam import IamCredentials, id_token
from tests.fakes.google.product import Product, route
from tests.fakes.google.wire import Request, Response
from tests.fakes.google.world import World


class OAuth(Product):
    """`revoke()` makes every trade fail as after `gcloud auth revoke` or an expired session."""

    prefix: ClassVar[str] = "oauth2"
    controls: ClassVar[tuple[str, ...]] = (
        *Product.controls,
        "revoke",
    )

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.revoked = False

    def revoke(self) -> None:
        self.revoked = True

    @route("POST", "token")
    def token(self, request: Request) -> Any:
        if self.revoked:
            refusal = {"error": "invalid_grant", "error_description": "Token has been expired or revoked."}
            return Response(refusal, status=400)
        form = dict(parse_qsl(request.body.decode()))
        claims = _claims(form["assertion"]) if "assertion" in form else {}
        serial = self.world.serial()
        if "target_audience" in claims:
            expires = self.world.clock() + IamCredentials.lifetime_s
            return {"id_token": id_token(claims["target_audience"], claims["iss"], expires, serial)}
        return {
            "access_token": f"access-{serial}",
            "expires_in": IamCredentials.lifetime_s,
            "token_type": "Bearer",
            "scope": "https://www.googleapis.com/auth/cloud-platform",
        }


def _claims(assertion: str) -> dict[str, Any]:
    part = assertion.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return claims
