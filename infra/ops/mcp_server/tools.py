"""Which questions are tools: each names the command that asks it, and the function that answers both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import Any

from infra.ops.answers.answer_base import JsonAnswer


@dataclass(frozen=True)
class Tool:
    """A command as a tool. Its help is the tool's description, its options are the parameters."""

    command: str
    """Its words, e.g. `tpu ended`."""
    answer: str
    """Module and name of the function that answers, e.g. infra.ops.commands.plan_screen:plan_answer."""
    applies: str = ""
    """The parameter that makes the answer a deed; empty of a question."""
    defaults: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Defaults that are smaller than the command's, since an assistant pays for what it reads."""

    @property
    def name(self) -> str:
        return self.command.replace(" ", "_").replace("-", "_")

    def call(self, **arguments: Any) -> JsonAnswer:
        """Return the answer. Raises Gemma4Error."""
        answered: JsonAnswer = self.function(**arguments)
        return answered

    @property
    def function(self) -> Any:
        """The function that answers, imported when it is first wanted."""
        module, _, name = self.answer.partition(":")
        return getattr(import_module(module), name)


TOOLS = (
    Tool("plan", "infra.ops.commands.plan_screen:plan_answer"),
    Tool("stacks", "infra.ops.commands.stack_list:stacks_answer"),
    Tool("models", "infra.ops.commands.catalog_lists:models_answer"),
    Tool("machines", "infra.ops.commands.catalog_lists:machines_answer"),
    Tool("explain", "infra.ops.commands.explain:explain_answer"),
    Tool("recommend", "infra.ops.commands.recommend:recommend_answer", defaults=MappingProxyType({"top": 3})),
    Tool("preflight", "infra.ops.commands.preflight:preflight_answer"),
    Tool("zones", "infra.ops.commands.zones:zones_answer"),
    Tool("status", "infra.ops.commands.status:status_answer"),
    Tool("check", "infra.ops.commands.check_again:check_answer"),
    Tool("metrics", "infra.ops.commands.read_metrics:metrics_answer"),
    Tool("memory", "infra.ops.commands.memory:memory_answer"),
    Tool("cost", "infra.ops.commands.cost_so_far:cost_answer"),
    Tool("logs", "infra.ops.commands.logs:logs_answer", defaults=MappingProxyType({"errors": True, "limit": 20})),
    Tool("diagnose", "infra.ops.commands.diagnose:diagnose_answer"),
    Tool("ask", "infra.ops.conversation.ask:ask_answer", defaults=MappingProxyType({"max_tokens": 1024})),
    Tool("evaluate", "infra.ops.evaluations.evaluate:evaluation_answer"),
    Tool("bench compare", "infra.ops.commands.bench_compare:compare_answer"),
    Tool("pause", "infra.ops.changing.pause:pause_answer", applies="yes"),
    Tool("resume", "infra.ops.changing.pause:resume_answer", applies="yes"),
    Tool("renew", "infra.ops.changing.renew:renew_answer", applies="yes"),
    Tool("rollback", "infra.ops.changing.rollback:rollback_answer", applies="yes"),
    Tool("tpu ended", "infra.ops.tpu.tpu_commands:ended_answer", applies="delete"),
)
"""In the order in which a client lists them."""

NO_TOOLS: Mapping[str, str] = {
    "tpu status": "`status` says of each slice what matters, in fewer words",
    "chat": "is a conversation at a terminal; `ask` is the tool",
    "bench run": "loads a server for minutes to hours, longer than a client waits for an answer",
    "bench report": "draws pictures, which are for people",
    "scorecard": "80 KB of published runs, which docs/scorecard.md holds",
    "pin": "writes files of this program's checkout",
    "env": "prints a secret",
    "proxy": "serves until it is stopped",
    "mcp": "is the server itself",
}
"""Commands that are no tools, with the reason."""
