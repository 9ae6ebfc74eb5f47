"""`/artifactregistry/v1`: repositories. Creating and deleting are operations, done at once."""

from __future__ import annotations

from typing import Any, ClassVar

from tests.fakes.google.product import Product, apply_changes, page, required, route
from tests.fakes.google.wire import Request, already_exists

REPOSITORIES = "projects/{project}/locations/{location}/repositories"
TYPE = "type.googleapis.com/google.devtools.artifactregistry.v1.Repository"


class ArtifactRegistry(Product):
    prefix: ClassVar[str] = "artifactregistry"

    @route("POST", REPOSITORIES)
    def create(self, request: Request, project: str, location: str) -> Any:
        given = request.query.get("repository_id") or request.query.get("repositoryId")
        parent = f"projects/{project}/locations/{location}"
        name = f"{parent}/repositories/{required(given, 'repositoryId')}"
        if name in self.resources:
            raise already_exists(name)
        now = self.world.now()
        self.resources[name] = {"mode": "STANDARD_REPOSITORY"} | request.json()
        self.resources[name] |= {"name": name, "createTime": now, "updateTime": now, "satisfiesPzi": True}
        return self.operation(parent, response={"@type": TYPE, **self.resources[name]})

    @route("GET", REPOSITORIES)
    def index(self, request: Request, project: str, location: str) -> Any:
        parent = f"projects/{project}/locations/{location}/"
        return page([one for name, one in self.resources.items() if name.startswith(parent)], request, "repositories")

    @route("GET", REPOSITORIES + "/{repository}")
    def get(self, request: Request, project: str, location: str, repository: str) -> Any:
        return self.known(f"projects/{project}/locations/{location}/repositories/{repository}")

    @route("PATCH", REPOSITORIES + "/{repository}")
    def patch(self, request: Request, project: str, location: str, repository: str) -> Any:
        found = self.known(f"projects/{project}/locations/{location}/repositories/{repository}")
        apply_changes(found, request)
        found["updateTime"] = self.world.now()
        return found

    @route("DELETE", REPOSITORIES + "/{repository}")
    def delete(self, request: Request, project: str, location: str, repository: str) -> Any:
        parent = f"projects/{project}/locations/{location}"
        self.remove(f"{parent}/repositories/{repository}")
        return self.operation(parent)
