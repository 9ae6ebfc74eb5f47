"""Google Cloud in one process: enough of its REST APIs for the gcp provider, the clients of infra/google and the staging job.

Start one with `with FakeGoogle() as fake:` or, as a process of its own, `python -m tests.fakes.google --port N`.
Everything it keeps is in memory; `leftovers()` says what a `destroy` forgot, `unknown` which requests it did not
understand, `requests` what it was asked. The first segment of a path names the product (`/run/v2/…`, `/tpu/v2alpha1/…`)
as `endpoints()` tells the clients. What real Google answers is known from public schemas and from one recorded
provider run; where that leaves room, the fake takes the stricter reading.
"""

from __future__ import annotations

from tests.fakes.google.faults import FaultRule
from tests.fakes.google.remote import RemoteFake
from tests.fakes.google.server import FakeGoogle, Recorded

__all__ = ["FakeGoogle", "FaultRule", "Recorded", "RemoteFake"]
