"""`/storage/v1`: buckets, their policies and objects in memory. Uploads are next door, in `uploads`."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any, ClassVar

from tests.fakes.google.product import Product, page, required, route
from tests.fakes.google.wire import ErrorAnswer, Request, Response, already_exists, not_found
from tests.fakes.google.world import PROJECT_NUMBER, World


class Storage(Product):
    """`resources` holds buckets by name, `objects` the newest version of each object by (bucket, name)."""

    prefix: ClassVar[str] = "storage"
    controls: ClassVar[tuple[str, ...]] = (
        *Product.controls,
        "put_text",
    )

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.contents: dict[tuple[str, str], bytes] = {}

    def put_text(self, bucket: str, name: str, text: str) -> None:
        """Place an object by hand; the bucket comes into being if it has to."""
        self.resources.setdefault(bucket, _bucket(bucket, {}, self.world))
        self.store(bucket, name, text.encode(), {})

    def store(self, bucket: str, name: str, content: bytes, metadata: dict[str, Any]) -> dict[str, Any]:
        generation = f"{int(self.world.clock() * 1_000_000)}{self.world.serial() % 1000:03d}"
        now = self.world.now()
        record = {"contentType": "application/octet-stream", "storageClass": "STANDARD"} | metadata
        record |= {
            "kind": "storage#object",
            "id": f"{bucket}/{name}/{generation}",
            "selfLink": f"https://www.googleapis.com/storage/v1/b/{bucket}/o/{name.replace('/', '%2F')}",
            "mediaLink": f"https://www.googleapis.com/download/storage/v1/b/{bucket}/o/{name.replace('/', '%2F')}",
            "name": name,
            "bucket": bucket,
            "generation": generation,
            "metageneration": "1",
            "size": str(len(content)),
            "md5Hash": base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode(),
            "etag": self.world.etag(),
            "timeCreated": now,
            "updated": now,
        }
        self.objects[bucket, name] = record
        self.contents[bucket, name] = content
        return record

    def check_generation(self, request: Request, bucket: str, name: str) -> None:
        """`ifGenerationMatch=0` means: only while no such object exists."""
        wanted = request.query.get("ifGenerationMatch")
        current = self.objects.get((bucket, name), {}).get("generation", "0")
        if wanted is not None and wanted != current:
            raise ErrorAnswer(412, "At least one of the pre-conditions you specified did not hold.")

    @route("POST", "b")
    def create(self, request: Request) -> Any:
        body = request.json()
        name = required(body.get("name"), "name")
        if name in self.resources:
            raise already_exists(name)
        self.resources[name] = _bucket(name, body, self.world)
        return self.resources[name]

    @route("GET", "b")
    def index(self, request: Request) -> Any:
        return page(list(self.resources.values()), request, "items")

    @route("GET", "b/{bucket}")
    def get(self, request: Request, bucket: str) -> Any:
        return self.known(bucket)

    @route("PATCH", "b/{bucket}")
    def patch(self, request: Request, bucket: str) -> Any:
        found = self.known(bucket)
        changes = request.json()
        labels = {**found.get("labels", {}), **(changes.pop("labels", None) or {})}
        found.update({key: value for key, value in changes.items() if value is not None})
        found["labels"] = {key: value for key, value in labels.items() if value is not None}
        found.update({"updated": self.world.now(), "etag": self.world.etag()})
        return found

    @route("DELETE", "b/{bucket}")
    def delete(self, request: Request, bucket: str) -> Any:
        self.known(bucket)
        if any(owner == bucket for owner, _ in self.objects):
            raise ErrorAnswer(409, "The bucket you tried to delete is not empty.", canonical="FAILED_PRECONDITION")
        self.remove(bucket)
        return Response(b"", status=204)

    @route("GET", "b/{bucket}/iam")
    def get_iam(self, request: Request, bucket: str) -> Any:
        self.known(bucket)
        return self.world.policy(self.policy_key(bucket))

    @route("PUT", "b/{bucket}/iam")
    def put_iam(self, request: Request, bucket: str) -> Any:
        self.known(bucket)
        return self.world.set_policy(self.policy_key(bucket), request.json())

    @route("GET", "b/{bucket}/iam/testPermissions")
    def test_permissions(self, request: Request, bucket: str) -> Any:
        self.known(bucket)
        return {"permissions": [request.query.get("permissions", "")]}

    @route("GET", "b/{bucket}/anywhereCaches/")
    def caches(self, request: Request, bucket: str) -> Any:
        return {"items": []}

    @route("GET", "b/{bucket}/o")
    def objects_of(self, request: Request, bucket: str) -> Any:
        self.known(bucket)
        prefix = request.query.get("prefix", "")
        names = sorted(name for owner, name in self.objects if owner == bucket and name.startswith(prefix))
        return page([self.objects[bucket, name] for name in names], request, "items")

    @route("GET", "b/{bucket}/o/{name*}")
    def get_object(self, request: Request, bucket: str, name: str) -> Any:
        record = self._object(bucket, name)
        if request.query.get("alt") != "media":
            return record
        return _content(self.contents[bucket, name], request.headers.get("range", ""), record)

    @route("PATCH", "b/{bucket}/o/{name*}")
    def patch_object(self, request: Request, bucket: str, name: str) -> Any:
        record = self._object(bucket, name)
        record.update(request.json())
        return record

    @route("DELETE", "b/{bucket}/o/{name*}")
    def delete_object(self, request: Request, bucket: str, name: str) -> Any:
        self._object(bucket, name)
        del self.objects[bucket, name], self.contents[bucket, name]
        return Response(b"", status=204)

    def leftovers(self) -> list[str]:
        left = [f"storage/{bucket}/{name}" for bucket, name in self.objects]
        return super().leftovers() + sorted(left)

    def _object(self, bucket: str, name: str) -> dict[str, Any]:
        self.known(bucket)
        if (bucket, name) not in self.objects:
            raise not_found(f"{bucket}/{name}")
        return self.objects[bucket, name]


def _bucket(name: str, body: dict[str, Any], world: World) -> dict[str, Any]:
    now = world.now()
    defaults: dict[str, Any] = {"storageClass": "STANDARD", "location": "US", "locationType": "region"}
    # Soft delete is on for new buckets, and the provider reads it back.
    defaults["softDeletePolicy"] = {"retentionDurationSeconds": "604800", "effectiveTime": now}
    return (
        defaults
        | body
        | {
            "kind": "storage#bucket",
            "id": name,
            "name": name,
            "selfLink": f"https://www.googleapis.com/storage/v1/b/{name}",
            "projectNumber": PROJECT_NUMBER,
            "metageneration": "1",
            "etag": world.etag(),
            "timeCreated": now,
            "updated": now,
        }
    )


def _content(content: bytes, wanted: str, record: dict[str, Any]) -> Response:
    headers = {"Content-Type": record["contentType"], "x-goog-generation": record["generation"]}
    match = re.fullmatch(r"bytes=(\d+)-(\d*)", wanted)
    if not match:
        return Response(content, headers=headers)
    first, last = int(match[1]), min(int(match[2] or len(content) - 1), len(content) - 1)
    if first >= len(content):
        return Response(b"", status=416, headers={"Content-Range": f"bytes */{len(content)}"})
    headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
    return Response(content[first : last + 1], status=206, headers=headers)
