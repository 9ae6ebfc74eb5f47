"""`gemma4 cost`: what a stack has cost this month by its running time, and what it would cost at so many hours a day."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from rich.console import RenderableType

from infra.catalog import catalog
from infra.errors import Gemma4Error, GoogleError, SettingsError
from infra.google.session import GoogleSession
from infra.google.times import moment, read_moment, timestamp_s
from infra.ops.answers.answer_base import print_answer
from infra.ops.answers.cost_answers import CostAnswer, CostRow, HoursRow, ListPriceRow
from infra.ops.answers.status_answers import CostSinceRow
from infra.ops.commands.status import cost_row, usd_words
from infra.ops.endpoint.stack_state import read_state
from infra.ops.google_access import stack_session
from infra.ops.plan_inputs import plan_stack, project_root
from infra.ops.running.platform_operations import PlatformOperations, operations_of
from infra.ops.running.usage import COPY, Usage
from infra.ops.terminal.progress import waiting
from infra.planning.cost.price_lines import MONTH_H, LineItem
from infra.planning.plan import Plan
from infra.planning.report.tables import Column, FittedTable, labelled
from infra.planning.report.terminal import NARROW, show
from infra.planning.units import Band, read_duration, read_predicted, read_usd

DAYS = 30.4
"""Days of a month in a what-if: a twelfth of a year."""
_MONTH = re.compile(r"([1-9]\d{3})-(0[1-9]|1[0-2])")


def cost_answer(stack: str, hours_a_day: float = 8, month: str | None = None) -> CostAnswer:
    """Return what the stack has cost in a month (YYYY-MM, default: this one) by running time and list prices, and what it
    would cost if it ran `hours_a_day`. Without Google or a deployment only the latter. Raises SettingsError."""
    root = project_root()
    planned = plan_stack(stack, root=root)
    plan, session = planned.plan, stack_session(planned.file)
    now = session.clock()
    begin, end = _month(month, now)
    unknown: list[str] = []
    deployed, rows, since_up = None, list[CostRow](), None
    with waiting(f"asking Google for how long {stack} has run"):
        try:
            session.gcp.required_project()
            operations = operations_of(plan)
            since = operations.deployed_since(session, plan)
            deployed = since is not None
            if since is not None:
                rows = list(_rows(session, plan, operations, max(begin, since), min(end, now), end))
        except Gemma4Error as error:
            unknown.append(str(error))
        if deployed:
            try:
                since_up = _since_up(session, plan, timestamp_s(read_state(root, stack).updated_at), now)
            except Gemma4Error as error:
                unknown.append(str(error))
    counted = [one for one in rows if one.usd_least is not None]
    projected = [one.month_usd for one in counted if one.month_usd is not None]
    return CostAnswer(
        stack=stack,
        month=f"{datetime.fromtimestamp(begin, UTC):%Y-%m}",
        until=moment(min(end, now)),
        deployed=deployed,
        rows=rows,
        usd_least=sum(one.usd_least or 0.0 for one in counted) if counted else None,
        usd_most=sum(one.usd_most or 0.0 for one in counted) if counted else None,
        month_usd=sum(projected) if projected else None,
        since_up=since_up,
        usd_per_hour=plan.cost.usd_per_hour,
        usd_per_month_idle=plan.cost.usd_per_month_idle,
        what_if=[
            HoursRow(hours_a_day=hours, usd_per_month=usd_per_month(plan, hours))
            for hours in sorted({0, hours_a_day, 24})
        ],
        prices=list(_prices((*plan.cost.replica_hour, *plan.cost.idle_month))),
        unknown=unknown,
    )


def show_cost(stack: str, *, hours_a_day: float, month: str | None, as_json: bool) -> None:
    """Print what a stack has cost and would cost."""
    answer = cost_answer(stack, hours_a_day, month)
    if as_json:
        print_answer(answer)
    else:
        show(*cost_lines(answer), columns=NARROW)


def usd_per_month(plan: Plan, hours_a_day: float) -> float:
    """Return dollars for a month of 30.4 days on which the fewest replicas that serve run `hours_a_day`: storage, and what
    the platform keeps whether they run or not, is paid all day."""
    kept = plan.deployment.kept_replicas
    always = sum(line.usd for line in _stored(plan)) + (0.0 if kept else sum(line.usd for line in _kept(plan)))
    return always + hours_a_day * DAYS * plan.cost.usd_per_hour * max(1, kept)


def cost_lines(answer: CostAnswer) -> Iterator[RenderableType]:
    """Yield an answer in lines for a terminal."""
    when = read_moment(answer.until)
    if answer.rows:
        yield f"{answer.stack} in {answer.month}, until {when}, by running time at list prices"
        yield _table(answer)
        yield from (labelled([(f"  {one.what}", one.note)], 14) for one in answer.rows if one.note)
    elif answer.deployed is False:
        yield f"{answer.stack} is not deployed, so it costs nothing now"
    if (since := answer.since_up) and since.usd_least is not None and since.usd_most is not None:
        began = read_moment(since.since)
        yield f"since the last up ({began}), storage left out: {usd_words(since.usd_least, since.usd_most)}"
    idle = read_usd(answer.usd_per_month_idle)
    yield f"planned: {read_usd(answer.usd_per_hour)} an hour for one that runs, {idle} a month idle"
    words = {0.0: "never", 24.0: "all day"}
    yield f"if it runs … ({DAYS} days a month, the fewest that serve)"
    for one in answer.what_if:
        hours = words.get(float(one.hours_a_day), f"{one.hours_a_day:g} hours a day")
        yield f"  {hours:<14}{_predicted(one.usd_per_month)} a month"
    yield "list prices, without discounts, taxes and free tiers"
    for price in answer.prices:
        said = f"{read_usd(price.usd)} a {price.unit}; {price.confidence}, read {price.read}"
        yield labelled([(f"  {price.what}", said)], 18)
    yield from (labelled([("not known", gap)], 9) for gap in answer.unknown)


def _month(text: str | None, now: float) -> tuple[float, float]:
    """Return the beginning and the end of a month in seconds since 1970, UTC. Raises SettingsError."""
    today = datetime.fromtimestamp(now, UTC)
    year, number = today.year, today.month
    if text is not None:
        found = _MONTH.fullmatch(text.strip())
        if not found:
            fix = f"Write one like {today:%Y-%m}."
            raise SettingsError.of("--month", f"{text!r} is not a month.", "It is not known what to add up.", fix)
        year, number = int(found[1]), int(found[2])
    begin = datetime(year, number, 1, tzinfo=UTC)
    if begin > today:
        fix = f"Write {today:%Y-%m} or an earlier one."
        raise SettingsError.of("--month", f"{text} has not begun.", "Nothing has run in it.", fix)
    after = datetime(year + number // 12, number % 12 + 1, 1, tzinfo=UTC)
    return begin.timestamp(), after.timestamp()


def _rows(
    session: GoogleSession, plan: Plan, operations: PlatformOperations, since: float, until: float, end: float
) -> Iterator[CostRow]:
    """Yield the rows of a month: what ran from `since`, when it began or the stack was deployed, to `until`."""
    if until <= since:
        return
    more = 0.0 if end <= until else (end - until) / (until - since)
    for one in operations.usage(session, plan, since=since, until=until):
        least, most = one.usd or (None, None)
        # The copy of the weights is not repeated: what it cost is all that it costs.
        rest = 0.0 if one.what == COPY else more
        whole = None if most is None or end <= until else most * (1 + rest)
        yield _row(one, least, most, whole)
    for line in _stored(plan):
        usd = line.usd * (until - since) / (MONTH_H * 3600)
        yield CostRow(
            what=line.label,
            running_s=None,
            usd_least=usd,
            usd_most=usd,
            month_usd=None if end <= until else usd * (1 + more),
            note="",
        )


def _row(one: Usage, least: float | None, most: float | None, whole: float | None) -> CostRow:
    return CostRow(what=one.what, running_s=one.seconds, usd_least=least, usd_most=most, month_usd=whole, note=one.note)


def _since_up(session: GoogleSession, plan: Plan, since: float | None, now: float) -> CostSinceRow | None:
    if since is None:
        return None
    try:
        return cost_row(operations_of(plan).usage(session, plan, since=since, until=now), since)
    except GoogleError as error:
        return cost_row([Usage.unknown("running time", str(error))], since)


def _kept(plan: Plan) -> list[LineItem]:
    """Return the price lines of what the platform keeps running for a month without requests."""
    return list(plan.deployment.idle_month(catalog()))


def _stored(plan: Plan) -> list[LineItem]:
    """Return the price lines of what is stored for a month: bucket, images, secrets."""
    kept = _kept(plan)
    return [line for line in plan.cost.idle_month if line not in kept]


def _prices(lines: Iterable[LineItem]) -> Iterator[ListPriceRow]:
    seen: set[str] = set()
    for line in lines:
        if line.price.sku in seen:
            continue
        seen.add(line.price.sku)
        source = line.price.source
        yield ListPriceRow(
            what=line.label,
            usd=line.price.usd,
            unit=line.price.unit.value,
            source=source.where,
            read=source.read.isoformat(),
            confidence=source.confidence,
        )


def _table(answer: CostAnswer) -> FittedTable:
    columns = [Column(""), Column("running", figures=True), Column("cost", figures=True)]
    columns += [Column("whole month", figures=True)] if answer.month_usd is not None else []
    rows = [
        (one.what, "" if one.running_s is None else read_duration(one.running_s), *_amounts(answer, one))
        for one in answer.rows
    ]
    total = CostRow(
        what="in all",
        running_s=None,
        usd_least=answer.usd_least,
        usd_most=answer.usd_most,
        month_usd=answer.month_usd,
        note="",
    )
    return FittedTable(columns, [*rows, (total.what, "", *_amounts(answer, total))])


def _amounts(answer: CostAnswer, one: CostRow) -> tuple[str, ...]:
    known = one.usd_least is not None and one.usd_most is not None
    cost = usd_words(one.usd_least or 0.0, one.usd_most or 0.0) if known else "not known"
    if answer.month_usd is None:
        return (cost,)
    return cost, "" if one.month_usd is None else _predicted(one.month_usd)


def _predicted(usd: float) -> str:
    return read_predicted(Band.exactly(usd), read_usd)
