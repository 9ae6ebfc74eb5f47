"""How the commands print data: under the number of a schema, with camelCase keys like those of a plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic.alias_generators import to_camel

SCHEMA = 1


def print_json(data: Mapping[str, Any]) -> None:
    """Print data under the number of its schema."""
    print(json.dumps({"schema": SCHEMA, **data}, indent=2))


def camel(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record of this program with camelCase keys, inner records included. Keys that users chose would be changed
    too, so records with such keys do not belong here."""
    return {to_camel(key): camel(value) if isinstance(value, Mapping) else value for key, value in record.items()}
