"""`gemma4 pause` and `gemma4 resume`: stop paying by the hour and keep weights, images and the address; and go on again.

A pause is a setting of the stack file, not a change behind Pulumi's back: the next `pulumi up` of anybody keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator

from infra.errors import SettingsError
from infra.ops.answers.answer_base import print_answer
from infra.ops.answers.pause_answers import PauseAnswer
from infra.ops.changing.ask_first import agreed
from infra.ops.changing.run_pulumi import Words, run_pulumi, spelled
from infra.ops.commands.plan import list_resources
from infra.ops.plan_inputs import plan_stack, project_root
from infra.planning.plan import Plan
from infra.planning.report.data import as_json
from infra.planning.report.running_effects import effects_on_running
from infra.planning.report.terminal import show
from infra.planning.settings.stackfile import NAMESPACE
from infra.planning.units import exact, read_duration, read_minutes, read_predicted, read_usd

_SETTING = "paused"


def pause_answer(stack: str, yes: bool = False) -> PauseAnswer:
    """Return what a pause saves and what is run for it; with `yes`, after running it. Raises Gemma4Error where that fails."""
    return _answer(stack, paused=True, yes=yes)


def resume_answer(stack: str, yes: bool = False) -> PauseAnswer:
    """Return what going on costs and what is run for it; with `yes`, after running it. Raises Gemma4Error where that fails."""
    return _answer(stack, paused=False, yes=yes)


def show_pause(stack: str, *, paused: bool, yes: bool, as_json: bool) -> None:
    """Print what changes, ask on a terminal unless `yes`, and run it. Raises SettingsError where nobody can be asked."""
    if as_json:
        print_answer(_answer(stack, paused=paused, yes=yes))
        return
    preview = _answer(stack, paused=paused, yes=False)
    show(*_lines(preview))
    if yes or agreed(f"{'Pause' if paused else 'Resume'} {stack}?"):
        run_pulumi(_commands(stack, paused=paused, already=preview.already), project_root())
        show(
            f"{stack} is paused; go on with: gemma4 resume {stack}"
            if paused
            else f"Look at it with: gemma4 status {stack}"
        )
    else:
        print("nothing was changed")


def _answer(stack: str, *, paused: bool, yes: bool) -> PauseAnswer:
    root = project_root()
    now, wanted, other = (
        plan_stack(stack, words, root=root)
        for words in (
            [],
            [f"{_SETTING}={'true' if paused else 'false'}"],
            [f"{_SETTING}={'false' if paused else 'true'}"],
        )
    )
    if not paused and wanted.plan.paused:
        raise _nothing_named(wanted.plan)
    running, kept = (other.plan, wanted.plan) if paused else (wanted.plan, other.plan)
    before, after = (as_json(one.plan, list_resources(one)) for one in (other, wanted))
    already = now.plan.paused == paused
    commands = _commands(stack, paused=paused, already=already)
    if yes:
        run_pulumi(commands, root)
    return PauseAnswer(
        stack=stack,
        paused=paused,
        already=already,
        says=_says(now.plan),
        done=yes,
        usd_per_hour=exact(_usd_per_hour(running)),
        usd_per_month_kept=exact(kept.cost.usd_per_month_idle),
        effects=[*effects_on_running(before, after), *_what_else(running, paused=paused)],
        commands=[spelled(command) for command in commands],
    )


def _nothing_named(plan: Plan) -> SettingsError:
    """Return why a stack without names cannot go on: which machines it had is written nowhere else."""
    key, stack = plan.platform.names_setting, plan.stack
    fact = "is an empty list, which pauses the stack, so there is nothing to bring back."
    fix = f"Write the names, or take it out for the default, and run: pulumi up -s {stack}"
    return SettingsError.of(key, fact, "Nothing was changed.", f"{fix}. `gemma4 pause {stack}` keeps the names.")


def _says(plan: Plan) -> str:
    """Return the setting that pauses the stack, or lets it run, as the stack file has it."""
    if plan.paused and not plan.settings.paused:
        return f"{plan.platform.names_setting}: []"
    return f"{_SETTING}: {'true' if plan.paused else 'false'}"


def _usd_per_hour(plan: Plan) -> float:
    """Return what runs by the hour whether anybody asks or not: kept instances, or every slice."""
    counted = plan.deployment.kept_replicas if plan.platform.scales_to_zero else plan.cost.replicas
    return plan.cost.usd_per_hour * counted


def _what_else(plan: Plan, *, paused: bool) -> Iterator[str]:
    """Yield what the resources do not say: who still wakes it, and how long it takes to come back."""
    start = read_predicted(plan.startup.from_zero, read_duration, ends=read_minutes)
    if plan.platform.scales_to_zero:
        if paused and not plan.deployment.kept_replicas:
            yield "No instance is kept warm anyway (scaling.minInstances: 0), so a pause saves nothing."
        if paused:
            yield f"A request still starts an instance and waits for it, {start}; an instance without requests stops by itself."
        return
    if paused:
        yield (
            f"The address answers 503 until it is resumed; that takes capacity, which Google may not have at once, and {start}."
        )
    else:
        yield f"Capacity is asked for: Google gives it at once, in hours, or not at all; then the server starts, {start}."


def _commands(stack: str, *, paused: bool, already: bool) -> list[Words]:
    setting = ["pulumi", "config", "set", "--stack", stack, f"{NAMESPACE}:{_SETTING}", "true"]
    if not paused:
        setting = ["pulumi", "config", "rm", "--stack", stack, f"{NAMESPACE}:{_SETTING}"]
    return [*([] if already else [setting]), ["pulumi", "up", "--stack", stack, "--yes"]]


def _lines(answer: PauseAnswer) -> Iterator[str]:
    hour, month = read_usd(answer.usd_per_hour), read_usd(answer.usd_per_month_kept)
    if answer.paused:
        yield f"Pausing {answer.stack} saves {hour} an hour; {month} a month is paid on for what stays."
    else:
        yield f"Resuming {answer.stack} costs {hour} an hour again, beside the {month} a month for what stayed."
    yield from (f"· {effect}" for effect in answer.effects)
    if answer.already:
        yield f"The stack file says {answer.says} already."
    yield "Runs:"
    yield from (f"  {command}" for command in answer.commands)
