"""Where the serving image comes from: a remote repository that mirrors Docker Hub, or a build from containers/.

The mirror needs no Docker to deploy. It pulls as nobody, or as a Docker Hub account whose token Artifact Registry reads from
Secret Manager by itself: no value of it passes through here. A build needs a Docker engine where `pulumi up` runs; its
digest is the push's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp

from infra.components.shared.foundation import Foundation
from infra.planning.plan import Plan

if TYPE_CHECKING:
    import pulumi_docker


@dataclass(frozen=True)
class ImagesArgs:
    """The plan and the foundation whose APIs must be enabled first."""

    plan: Plan
    foundation: Foundation


class Images(pulumi.ComponentResource):
    """`serving` is the reference that the platform pulls; `ready` is what must exist before it can."""

    serving: pulumi.Output[str]
    repository: gcp.artifactregistry.Repository
    ready: list[pulumi.Resource]

    def __init__(self, name: str, args: ImagesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gemma4:components:Images", name, {}, opts)
        self._name, self._plan = name, args.plan
        plan, registry = args.plan, gcp.artifactregistry
        build = plan.settings.images.mode == "build"
        login, ready = self._login(args.foundation)
        remote = registry.RepositoryRemoteRepositoryConfigArgs(
            description="Docker Hub",
            upstream_credentials=login,
            docker_repository=registry.RepositoryRemoteRepositoryConfigDockerRepositoryArgs(
                public_repository="DOCKER_HUB"
            ),
        )
        latest = registry.RepositoryCleanupPolicyMostRecentVersionsArgs(keep_count=plan.repository.keep_versions)
        old = registry.RepositoryCleanupPolicyConditionArgs(
            tag_state="ANY", older_than=f"{plan.repository.delete_after_s}s"
        )
        self.repository = registry.Repository(
            f"{name}-repository",
            repository_id=plan.names.prefix,
            location=plan.region,
            format="DOCKER",
            mode="STANDARD_REPOSITORY" if build else "REMOTE_REPOSITORY",
            remote_repository_config=None if build else remote,
            description=f"gemma4 stack {plan.stack}: serving images",
            labels=dict(plan.labels),
            cleanup_policies=[
                registry.RepositoryCleanupPolicyArgs(id="keep-latest", action="KEEP", most_recent_versions=latest),
                registry.RepositoryCleanupPolicyArgs(id="delete-old", action="DELETE", condition=old),
            ],
            # Else one in another region would be kept as a deletion to be done, and be in the way of a move back.
            opts=pulumi.ResourceOptions(parent=self, depends_on=ready, delete_before_replace=True),
        )
        if build:
            image = self._build()
            self.serving, self.ready = image.repo_digest, [image]
        else:
            self.serving, self.ready = pulumi.Output.from_input(plan.images["serving"].pull), [self.repository]
        self.register_outputs({"serving": self.serving})

    def _login(
        self, foundation: Foundation
    ) -> tuple[
        gcp.artifactregistry.RepositoryRemoteRepositoryConfigUpstreamCredentialsArgs | None, list[pulumi.Resource]
    ]:
        """Return credentials for Docker Hub, None without an account, and what the repository waits for."""
        registry, images = gcp.artifactregistry, self._plan.settings.images
        if images.docker_hub_user is None or images.docker_hub_secret is None:
            return None, foundation.apis
        # Google's own account for Artifact Registry, which a young project does not have before it is asked for.
        agent = gcp.projects.ServiceIdentity(
            f"{self._name}-agent",
            service="artifactregistry.googleapis.com",
            opts=pulumi.ResourceOptions(parent=self, depends_on=foundation.apis),
        )
        secret = self._plan.names.secret(images.docker_hub_secret)
        grant = gcp.secretmanager.SecretIamMember(
            f"{self._name}-hub-token",
            secret_id=secret,
            role="roles/secretmanager.secretAccessor",
            member=agent.member,
            opts=pulumi.ResourceOptions(parent=self),
        )
        login = registry.RepositoryRemoteRepositoryConfigUpstreamCredentialsUsernamePasswordCredentialsArgs(
            username=images.docker_hub_user, password_secret_version=f"{secret}/versions/latest"
        )
        credentials = registry.RepositoryRemoteRepositoryConfigUpstreamCredentialsArgs(
            username_password_credentials=login
        )
        return credentials, [grant, foundation.settled("images", [agent, grant])]

    def _build(self) -> pulumi_docker.Image:
        import pulumi_docker as docker  # imported where a build was asked for: its plugin is looked for at import

        folder = self._plan.server.implementation.image
        return docker.Image(
            f"{self._name}-build",
            image_name=self._plan.images["serving"].pull,
            build=docker.DockerBuildArgs(
                context=f"containers/{folder}",
                dockerfile=f"containers/{folder}/Dockerfile",
                platform="linux/amd64",
                args={"BASE": self._plan.images["serving"].upstream},
            ),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[self.repository]),
        )
