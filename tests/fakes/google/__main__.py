"""`python -m tests.fakes.google --port N`: the fake as a process of its own, for engine tests."""

from __future__ import annotations

import argparse

from tests.fakes.google.server import FakeGoogle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one; the address is printed first")
    parser.add_argument("--project", default="demo-project")
    given = parser.parse_args()
    fake = FakeGoogle(project=given.project, port=given.port)
    print(fake.url, flush=True)
    fake.serve_forever()


if __name__ == "__main__":
    main()
