"""What every stack stands on: enabled APIs, its service accounts, and the Hugging Face token where one is needed.

It grants no role on the project. Every grant is on one resource, made by the component that owns that resource.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from infra.components.shared.grant_names import by_name
from infra.planning.plan import Plan
from infra.planning.units import parse_duration
from infra.providers.grant_propagation import GrantPropagation, GrantPropagationArgs

_ALWAYS = ("cloudresourcemanager", "iam", "iamcredentials", "run", "artifactregistry", "storage", "compute", "logging")


@dataclass(frozen=True)
class Secrets:
    """Secret values of the stack, as infra/config.py reads them; never part of the Plan."""

    hf_token: pulumi.Output[str] | None


@dataclass(frozen=True)
class FoundationArgs:
    """`hf_token` is the secret value from the stack's configuration, None where an existing secret or none is used."""

    plan: Plan
    hf_token: pulumi.Output[str] | None


class Foundation(pulumi.ComponentResource):
    """APIs, accounts and the token. `apis` is what everything else waits for."""

    apis: list[pulumi.Resource]
    runtime: gcp.serviceaccount.Account
    """The server's own identity."""
    invoker: gcp.serviceaccount.Account
    """May call the endpoint; the serving check and operators act as it."""
    deployers: list[pulumi.Resource]
    """The grants with which the configured deployers act as the invoker: the serving check needs its caller's."""
    token_secret: pulumi.Output[str] | None
    """Resource name of the secret that holds the Hugging Face token (`projects/…/secrets/…`), None where there is none."""

    def __init__(self, name: str, args: FoundationArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gemma4:components:Foundation", name, {}, opts)
        self._name, self._plan = name, args.plan
        settings = args.plan.settings
        secrets = args.hf_token is not None or settings.hf_token_secret or settings.images.docker_hub_secret
        self.apis = [
            gcp.projects.Service(
                f"{name}-api-{api}",
                service=f"{api}.googleapis.com",
                disable_on_destroy=False,
                opts=pulumi.ResourceOptions(parent=self),
            )
            for api in sorted({*_ALWAYS, *args.plan.platform.apis, *(("secretmanager",) if secrets else ())})
        ]
        self.runtime = self.account("runtime", args.plan.names.prefix, "runs the server")
        self.invoker = self.account("invoker", args.plan.names.invoker, "may call the endpoint")
        self.deployers = [
            gcp.serviceaccount.IAMMember(
                f"{name}-deployer-{suffix}",
                service_account_id=self.invoker.name,
                role="roles/iam.serviceAccountOpenIdTokenCreator",
                member=member,
                opts=pulumi.ResourceOptions(parent=self),
            )
            for suffix, member in by_name(settings.access.deployers).items()
        ]
        self.token_secret, self._token_ready = self._token(args)
        self.register_outputs({"runtime": self.runtime.email, "invoker": self.invoker.email})

    def account(self, role: str, account_id: str, purpose: str) -> gcp.serviceaccount.Account:
        """Return a service account of this stack without any role."""
        return gcp.serviceaccount.Account(
            f"{self._name}-{role}",
            account_id=account_id,
            display_name=f"gemma4 {self._plan.stack} {role}",
            description=f"Stack {self._plan.stack}: {purpose}",
            opts=pulumi.ResourceOptions(parent=self, depends_on=self.apis),
        )

    def let_read_token(self, role: str, account: gcp.serviceaccount.Account) -> list[pulumi.Resource]:
        """Grant `account` the token, and return what must be there before it can be read; nothing without a token."""
        if self.token_secret is None:
            return []
        grant = gcp.secretmanager.SecretIamMember(
            f"{self._name}-token-{role}",
            secret_id=self.token_secret,
            role="roles/secretmanager.secretAccessor",
            member=account.member,
            opts=pulumi.ResourceOptions(parent=self),
        )
        return [grant, *self._token_ready]

    def settled(self, role: str, made: Sequence[pulumi.Resource]) -> pulumi.Resource:
        """Return what to depend on instead of new accounts and grants: it is there once Google acts on them and the APIs."""
        return GrantPropagation(
            f"{self._name}-grants-{role}",
            GrantPropagationArgs(
                # What changes when a resource is made anew: an account keeps its name then, and so do all its grants.
                after=[
                    one.unique_id if isinstance(one, gcp.serviceaccount.Account) else one.id
                    for one in (*self.apis, *made)
                    if isinstance(one, pulumi.CustomResource)
                ],
                settle_s=parse_duration(self._plan.settings.access.settle_time),
            ),
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(made)),
        )

    def _token(self, args: FoundationArgs) -> tuple[pulumi.Output[str] | None, list[pulumi.Resource]]:
        existing = self._plan.settings.hf_token_secret
        if existing:
            return pulumi.Output.from_input(self._plan.names.secret(existing)), []
        if args.hf_token is None:
            return None, []
        secret = gcp.secretmanager.Secret(
            f"{self._name}-hf-token",
            secret_id=self._plan.names.token_secret,
            labels=dict(self._plan.labels),
            replication=gcp.secretmanager.SecretReplicationArgs(auto=gcp.secretmanager.SecretReplicationAutoArgs()),
            opts=pulumi.ResourceOptions(parent=self, depends_on=self.apis),
        )
        version = gcp.secretmanager.SecretVersion(
            f"{self._name}-hf-token-version",
            secret=secret.id,
            secret_data=args.hf_token,
            opts=pulumi.ResourceOptions(parent=self, additional_secret_outputs=["secretData"]),
        )
        return secret.id, [version]
