"""Identity: service accounts, a project's IAM policy, and short-lived credentials for another account."""

from __future__ import annotations

import base64
import json
import re
from typing import Any, ClassVar

from tests.fakes.google.product import Product, page, required, route
from tests.fakes.google.wire import ErrorAnswer, Request, already_exists, not_found, permission_denied
from tests.fakes.google.world import PROJECT_NUMBER, World

MOST_PERMISSIONS = 100


class Iam(Product):
    """`/iam/v1`: service accounts and their policies. Accounts are found by e-mail or unique id, under any project."""

    prefix: ClassVar[str] = "iam"

    @route("POST", "projects/{project}/serviceAccounts")
    def create(self, request: Request, project: str) -> Any:
        body = request.json()
        email = f"{required(body.get('accountId'), 'accountId')}@{project}.iam.gserviceaccount.com"
        name = f"projects/{project}/serviceAccounts/{email}"
        if name in self.resources:
            raise already_exists(name)
        given = {key: value for key, value in body.get("serviceAccount", {}).items() if value}
        self.resources[name] = given | {
            "name": name,
            "projectId": project,
            "uniqueId": f"1{self.world.serial():020d}",
            "email": email,
            "etag": self.world.etag(),
            "oauth2ClientId": f"{self.world.serial():021d}",
        }
        return self.resources[name]

    @route("GET", "projects/{project}/serviceAccounts")
    def index(self, request: Request, project: str) -> Any:
        return page([one for one in self.resources.values() if one["projectId"] == project], request, "accounts")

    @route("GET", "projects/{project}/serviceAccounts/{account}")
    def get(self, request: Request, project: str, account: str) -> Any:
        return self.find(account)

    @route("PATCH", "projects/{project}/serviceAccounts/{account}")
    def patch(self, request: Request, project: str, account: str) -> Any:
        found = self.find(account)
        changes = request.json().get("serviceAccount", {})
        found.update({key: changes[key] for key in ("displayName", "description") if key in changes})
        found["etag"] = self.world.etag()
        return found

    @route("DELETE", "projects/{project}/serviceAccounts/{account}")
    def delete(self, request: Request, project: str, account: str) -> Any:
        self.remove(self.find(account)["name"])
        return {}

    def policy_key(self, resource: str) -> str:
        account = self.find(resource.rsplit("/", 1)[-1]) if "/serviceAccounts/" in resource else {"name": resource}
        return f"iam/{account['name']}"

    def check_policy_target(self, resource: str) -> None:
        self.find(resource.rsplit("/", 1)[-1])

    def remove(self, name: str) -> dict[str, Any]:
        self.world.forget_policy(self.policy_key(name))
        return self.resources.pop(name)

    def find(self, account: str) -> dict[str, Any]:
        for one in self.resources.values():
            if account in (one["email"], one["uniqueId"]):
                return one
        raise not_found(account)


class CustomRoles(Product):
    """`/iam/v1`: a project's own roles. A deleted one keeps its name for weeks, and can only be undeleted meanwhile."""

    prefix: ClassVar[str] = "iam"

    @route("POST", "projects/{project}/roles")
    def create(self, request: Request, project: str) -> Any:
        body = request.json()
        role = required(body.get("roleId"), "roleId")
        name = f"projects/{project}/roles/{role}"
        if not re.fullmatch(r"[a-zA-Z0-9_.]{3,64}", role):
            raise ErrorAnswer(400, f"The role_id {role} is not 3 to 64 letters, digits, underscores and periods.")
        if self.resources.get(name, {}).get("deleted"):
            text = f"You can't create a role_id ({role}) which has been marked for deletion."
            raise ErrorAnswer(400, text, canonical="FAILED_PRECONDITION")
        if name in self.resources:
            raise ErrorAnswer(409, f"A role named {role} in projects/{project} already exists.")
        self.resources[name] = {**body.get("role", {}), "name": name, "etag": self.world.etag()}
        return self.resources[name]

    @route("GET", "projects/{project}/roles/{role}")
    def get(self, request: Request, project: str, role: str) -> Any:
        return self.known(f"projects/{project}/roles/{role}")

    @route("PATCH", "projects/{project}/roles/{role}")
    def patch(self, request: Request, project: str, role: str) -> Any:
        return self.patched(f"projects/{project}/roles/{role}", request)

    @route("DELETE", "projects/{project}/roles/{role}")
    def delete(self, request: Request, project: str, role: str) -> Any:
        found = self.known(f"projects/{project}/roles/{role}")
        found["deleted"] = True
        return found

    @route("POST", "projects/{project}/roles/{role}:undelete")
    def undelete(self, request: Request, project: str, role: str) -> Any:
        found = self.known(f"projects/{project}/roles/{role}")
        found.pop("deleted", None)
        return found

    def leftovers(self) -> list[str]:
        return [f"iam/{name}" for name, role in sorted(self.resources.items()) if not role.get("deleted")]


class Projects(Product):
    """`/crm/v1`: one project's record and IAM policy.

    `denied` holds permissions that testIamPermissions leaves out, `untestable` those for which it refuses the whole request.
    """

    prefix: ClassVar[str] = "crm"
    controls: ClassVar[tuple[str, ...]] = (
        *Product.controls,
        "deny",
    )

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.denied: set[str] = set()
        self.untestable: set[str] = set()
        self.state = "ACTIVE"

    def deny(self, *permissions: str) -> None:
        self.denied |= set(permissions)

    @route("GET", "projects/{project}")
    def get(self, request: Request, project: str) -> Any:
        return {
            "projectId": project,
            "projectNumber": PROJECT_NUMBER,
            "name": project,
            "lifecycleState": self.state,
            "createTime": "2026-01-01T00:00:00Z",
        }

    @route("POST", "projects/{project}:testIamPermissions")
    def test_permissions(self, request: Request, project: str) -> Any:
        asked = request.json().get("permissions", [])
        if len(asked) > MOST_PERMISSIONS:
            raise ErrorAnswer(400, f"Too many permissions: {len(asked)}.")
        if invalid := next((one for one in asked if one in self.untestable), ""):
            raise ErrorAnswer(400, f"Permission {invalid} is not valid for this resource.")
        return {"permissions": [permission for permission in asked if permission not in self.denied]}

    def check_policy_target(self, resource: str) -> None:
        """Every project exists."""

    def leftovers(self) -> list[str]:
        left = []
        for key, policy in self.world.policies.items():
            if key.startswith("crm/"):
                grants = [(one["role"], member) for one in policy["bindings"] for member in one["members"]]
                left += [f"{key} {role} {member}" for role, member in grants]
        return sorted(left)


class IamCredentials(Product):
    """`/iamcredentials/v1`: access and identity tokens of another account, refused for accounts in `refused`."""

    prefix: ClassVar[str] = "iamcredentials"
    controls: ClassVar[tuple[str, ...]] = (*Product.controls, "refuse", "allow")
    lifetime_s = 3600

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.refused: set[str] = set()

    def refuse(self, account: str) -> None:
        self.refused.add(account)

    def allow(self, account: str) -> None:
        self.refused.discard(account)

    @route("POST", "projects/-/serviceAccounts/{account}:generateAccessToken")
    def access_token(self, request: Request, account: str) -> Any:
        self._check(account, "iam.serviceAccounts.getAccessToken")
        required(" ".join(request.json().get("scope", [])), "scope")
        expires = self.world.at(self.lifetime_s)
        return {"accessToken": f"access-of-{account}-{self.world.serial()}", "expireTime": expires}

    @route("POST", "projects/-/serviceAccounts/{account}:generateIdToken")
    def id_token(self, request: Request, account: str) -> Any:
        self._check(account, "iam.serviceAccounts.getOpenIdToken")
        body = request.json()
        audience = required(body.get("audience"), "audience")
        email = account if body.get("includeEmail") else ""
        return {"token": id_token(audience, email, self.world.clock() + self.lifetime_s, self.world.serial())}

    def _check(self, account: str, permission: str) -> None:
        if account in self.refused:
            raise permission_denied(permission, f"projects/-/serviceAccounts/{account}")


def id_token(audience: str, email: str, expires: float, serial: int) -> str:
    """A JSON web token with a signature nobody will accept; `serial` tells two tokens apart."""
    claims: dict[str, Any] = {
        "iss": "https://accounts.google.com",
        "aud": audience,
        "exp": int(expires),
        "iat": int(expires) - IamCredentials.lifetime_s,
        "jti": str(serial),
    }
    if email:
        claims |= {"email": email, "email_verified": True}
    return ".".join(_base64(part) for part in (json.dumps({"alg": "none"}), json.dumps(claims), "unsigned"))


def _base64(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
