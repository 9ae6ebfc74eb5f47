"""The smallest engine that treats dynamic resources as Pulumi does, without Pulumi: what decides whether a paid machine gets
lost, or a serving one is deleted too early.

Held to the real one by tests/engine/test_tpu_renewal_engine.py. It keeps a resource only if its `create` returned, and drops
inputs without a value. Every `up` begins with a refresh, which reads pending deletions as well. A replacement makes the new
one first, after a `check` without old inputs, and keeps the old one as a pending deletion; one that is asked for by name
(`pulumi up --replace`) is not even compared. What is pending, and what the program has no more, is deleted at the end of an
`up` in which everything else has succeeded, the newest resources first. What must be deleted before it is replaced takes along
those that read its outputs and would be replaced for another value of them, the newest first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from pulumi.dynamic import ResourceProvider

Outputs = Callable[[str, str], Any]
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""What an output counts as while the resource that has it is replaced; Pulumi's own value."""


@dataclass(frozen=True)
class Declared:
    """A resource of the program, before those that depend on it. `inputs` may read outputs: `outputs(resource, key)`."""

    name: str
    provider: ResourceProvider
    inputs: Callable[[Outputs], Mapping[str, Any]]


@dataclass
class Kept:
    """What the state holds of one resource."""

    name: str
    provider: ResourceProvider
    id: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]


@dataclass
class MiniEngine:
    """`done` lists the steps of the last command: create, update, replace, delete."""

    state: dict[str, Kept] = field(default_factory=dict)
    pending: list[Kept] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    program: list[Declared] = field(default_factory=list)
    """Of the last `up`."""

    def output(self, resource: str, key: str) -> Any:
        return self.state[resource].outputs.get(key)

    def refresh(self) -> None:
        for kept in [*self.state.values(), *self.pending]:
            result = kept.provider.read(kept.id, dict(kept.outputs))
            if result.id:
                kept.outputs = dict(result.outs or {})
            elif kept in self.pending:
                self.pending.remove(kept)
            else:
                del self.state[kept.name]

    def up(self, program: list[Declared], replace: Collection[str] = ()) -> None:
        """Bring the state to the program. Raises what a provider raises, and then deletes nothing."""
        self.done, self.program = [], program
        self.refresh()
        for declared in program:
            self._apply(declared, asked_for=declared.name in replace)
        wanted = {declared.name for declared in program}
        gone = [kept for kept in reversed(self.state.values()) if kept.name not in wanted]
        for kept in [*self.pending[::-1], *gone]:
            self._delete(kept)

    def destroy(self) -> None:
        self.done = []
        for kept in [*reversed(self.state.values()), *self.pending[::-1]]:
            self._delete(kept)

    def _apply(self, declared: Declared, *, asked_for: bool) -> None:
        goal = {key: value for key, value in declared.inputs(self.output).items() if value is not None}
        name, provider, kept = declared.name, declared.provider, self.state.get(declared.name)
        if kept is None:
            self._create(declared, goal, "create")
            return
        if asked_for:
            self._replace(declared, goal, kept)
            return
        inputs = dict(provider.check(kept.inputs, goal).inputs)
        difference = provider.diff(kept.id, dict(kept.outputs), inputs)
        if difference.changes and difference.replaces:
            if difference.delete_before_replace:
                for one in reversed(self._with_dependents(kept)):
                    self._delete(one)
                self._create(declared, goal, "replace")
            else:
                self._replace(declared, goal, kept)
            return
        if difference.changes:
            self.done.append(f"update {name}")
            kept.outputs = dict(provider.update(kept.id, dict(kept.outputs), inputs).outs or {})
        kept.inputs, kept.provider = inputs, provider

    def _with_dependents(self, kept: Kept) -> list[Kept]:
        """Return a resource and what is replaced with it, in the order of the program."""
        found = [kept]

        def outputs(resource: str, key: str) -> Any:
            return UNKNOWN if resource in {one.name for one in found} else self.output(resource, key)

        for declared in self.program:
            other = self.state.get(declared.name)
            if other is None or other in found:
                continue
            goal = {key: value for key, value in declared.inputs(outputs).items() if value is not None}
            if UNKNOWN in goal.values() and other.provider.diff(other.id, dict(other.outputs), goal).replaces:
                found.append(other)
        return found

    def _replace(self, declared: Declared, goal: Mapping[str, Any], kept: Kept) -> None:
        self._create(declared, goal, "replace")
        self.pending.append(kept)

    def _create(self, declared: Declared, goal: Mapping[str, Any], verb: str) -> None:
        self.done.append(f"{verb} {declared.name}")
        inputs = dict(declared.provider.check({}, dict(goal)).inputs)
        made = declared.provider.create(dict(inputs))
        kept = Kept(declared.name, declared.provider, made.id, inputs, dict(made.outs or {}))
        self.state.pop(declared.name, None)
        self.state[declared.name] = kept

    def _delete(self, kept: Kept) -> None:
        self.done.append(f"delete {kept.name}")
        kept.provider.delete(kept.id, dict(kept.outputs))
        if kept in self.pending:
            self.pending.remove(kept)
        else:
            del self.state[kept.name]
