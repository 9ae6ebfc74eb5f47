"""By command, the model of what it prints with `--json`."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from infra.ops.answers.benchmark_answers import BenchAnswer
from infra.ops.answers.comparison_answers import ComparisonAnswer
from infra.ops.answers.connection_answers import Connection
from infra.ops.answers.conversation_answers import AskAnswer
from infra.ops.answers.cost_answers import CostAnswer
from infra.ops.answers.diagnosis_answers import DiagnosisAnswer
from infra.ops.answers.evaluation_answers import EvaluationAnswer
from infra.ops.answers.log_answers import Logs
from infra.ops.answers.memory_answers import MemoryAnswer
from infra.ops.answers.metrics_answers import MetricsAnswer
from infra.ops.answers.pause_answers import PauseAnswer
from infra.ops.answers.planning_answers import Explanations, Machines, Models, Pinned, Recommendations, Stacks
from infra.ops.answers.preflight_answers import Preflight
from infra.ops.answers.proof_answers import CheckAnswer
from infra.ops.answers.renewal_answers import RenewalAnswer
from infra.ops.answers.rollback_answers import RollbackAnswer
from infra.ops.answers.scorecard_answers import Scorecard
from infra.ops.answers.slice_answers import EndedRequestsAnswer, SliceStatuses, Zones
from infra.ops.answers.status_answers import Status
from infra.planning.report.data_models import PlanData

ANSWERS: Mapping[str, type[BaseModel]] = {
    "plan": PlanData,
    "stacks": Stacks,
    "recommend": Recommendations,
    "explain": Explanations,
    "models": Models,
    "machines": Machines,
    "pin": Pinned,
    "preflight": Preflight,
    "pause": PauseAnswer,
    "resume": PauseAnswer,
    "renew": RenewalAnswer,
    "rollback": RollbackAnswer,
    "status": Status,
    "evaluate": EvaluationAnswer,
    "logs": Logs,
    "metrics": MetricsAnswer,
    "memory": MemoryAnswer,
    "env": Connection,
    "diagnose": DiagnosisAnswer,
    "check": CheckAnswer,
    "cost": CostAnswer,
    "scorecard": Scorecard,
    "bench run": BenchAnswer,
    "ask": AskAnswer,
    "tpu status": SliceStatuses,
    "tpu ended": EndedRequestsAnswer,
    "zones": Zones,
    "bench compare": ComparisonAnswer,
}
"""By command, the model of its answer; every command that takes `--json` is here. A failure is a `FailureAnswer`."""
