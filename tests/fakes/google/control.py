"""`/_fake/…`: a test in another process steers and inspects the fake with these; no Google product answers here."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tests.fakes.google.faults import FaultRule
from tests.fakes.google.wire import ErrorAnswer, Request, Response

if TYPE_CHECKING:
    from tests.fakes.google.server import FakeGoogle

ROOT = "/_fake/"


def answer(fake: FakeGoogle, request: Request) -> Response:
    """GET state, requests, leftovers, unknown, endpoints; POST fault, call, clear."""
    what = request.path.removeprefix(ROOT)
    if request.method == "GET":
        return Response(_read(fake, what))
    if what == "fault":
        fake.rules.append(FaultRule(**request.json()))
        return Response({})
    if what == "call":
        return Response({"result": _call(fake, **request.json())})
    if what == "clear":
        fake.clear()
        return Response({})
    raise ErrorAnswer(404, f"no control {what}")


def _read(fake: FakeGoogle, what: str) -> Any:
    if what == "requests":
        return {"requests": [asdict(one) for one in fake.requests]}
    if what == "leftovers":
        return {"leftovers": fake.leftovers()}
    if what == "unknown":
        return {"unknown": fake.unknown}
    if what == "endpoints":
        return fake.endpoints()
    if what == "state":
        products = {f"{type(one).__name__}": one.resources for one in fake.products}
        return products | {"nodes": fake.tpu.nodes, "objects": sorted("/".join(key) for key in fake.storage.objects)}
    raise ErrorAnswer(404, f"no control {what}")


def _call(fake: FakeGoogle, target: str, args: dict[str, Any]) -> Any:
    """Call a product's control, such as `tpu.advance`, with keyword arguments."""
    name, _, method = target.partition(".")
    product = getattr(fake, name, None)
    if product not in fake.products or method not in product.controls:
        raise ErrorAnswer(404, f"no control {target}")
    return getattr(product, method)(*args.pop("args", ()), **args)
