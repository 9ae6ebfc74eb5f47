"""The catalog: every fact that planning uses, read from the data files beside this module.

Each file is read when something in it is first asked for, and checked as a whole then: a catalog that loads is
consistent. A fault in a file is a fault of this program: CatalogError names every fault of that file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path

from infra.catalog.failures import KnownFailure
from infra.catalog.file_reader import DATA, CatalogFile, RowT, nearest
from infra.catalog.lock import Lock, lock_stamp, read_lock
from infra.catalog.schema import (
    Accelerator,
    Architecture,
    Assistant,
    Benchmark,
    Image,
    LoadedSize,
    Model,
    OpenFault,
    Price,
    PriceOfRegions,
    Profile,
    ProgramSize,
    Quota,
    ReadRate,
    Recipe,
    Score,
    SlowMemory,
    SlowPrompts,
    StageTime,
    Unscored,
    WeightFormat,
)
from infra.errors import CatalogError


class Catalog:
    """All rows by id, read lazily from `directory`."""

    def __init__(self, directory: Path = DATA) -> None:
        self._directory = directory
        self._lock: tuple[object, Lock] | None = None

    @property
    def architectures(self) -> Mapping[str, Architecture]:
        return self._models_file[0]

    @property
    def assistants(self) -> Mapping[str, Assistant]:
        return self._models_file[1]

    @property
    def models(self) -> Mapping[str, Model]:
        return self._models_file[2]

    @property
    def weight_formats(self) -> Mapping[str, WeightFormat]:
        return self._models_file[3]

    @cached_property
    def accelerators(self) -> Mapping[str, Accelerator]:
        file = self._open("accelerators.toml")
        accelerators = file.keyed("accelerators", Accelerator)
        for accelerator in accelerators.values():
            for name in _quotas_of(accelerator):
                file.refer(f"accelerators.{accelerator.id}.quota", name, self.quotas)
        file.finish()
        return accelerators

    @cached_property
    def quotas(self) -> Mapping[str, Quota]:
        file = self._open("quotas.toml")
        quotas = file.keyed("quotas", Quota)
        file.finish()
        return quotas

    @cached_property
    def images(self) -> Mapping[str, Image]:
        file = self._open("images.toml")
        images = file.keyed("images", Image)
        file.finish()
        return images

    @cached_property
    def prices(self) -> tuple[Price, ...]:
        file = self._open("prices.toml")
        prices = tuple(price for row in file.listed("prices", PriceOfRegions) for price in row.each())
        for number, price in enumerate(prices, start=1):
            if any((price.sku, price.region) == (other.sku, other.region) for other in prices[: number - 1]):
                file.fault(f"prices[{number}]", f"{price.sku} in {price.region} has a price already")
        file.finish()
        return prices

    @cached_property
    def recipes(self) -> tuple[Recipe, ...]:
        file = self._open("recipes.toml")
        recipes = tuple(file.keyed("recipes", Recipe).values())
        seen: dict[tuple[str, str, str | None], str] = {}
        for recipe in recipes:
            where = f"recipes.{recipe.id}"
            file.refer(f"{where}.model", recipe.model, self.models)
            file.refer(f"{where}.accelerator", recipe.accelerator, self.accelerators)
            twin = seen.setdefault((recipe.model, recipe.accelerator, recipe.profile), recipe.id)
            if twin != recipe.id:
                file.fault(where, f"{twin} is for the same model, accelerator and profile")
        file.finish()
        return recipes

    @cached_property
    def failures(self) -> Mapping[str, KnownFailure]:
        """Return the known failures by id, in the order of their precedence."""
        file = self._open("failures.toml")
        failures = file.keyed("failures", KnownFailure)
        stages: dict[str, str] = {}
        for failure in failures.values():
            for stage in failure.stages:
                twin = stages.setdefault(stage, failure.id)
                if twin != failure.id:
                    file.fault(f"failures.{failure.id}.stages", f"{twin} is the cause at stage {stage} already")
        file.finish()
        return failures

    @cached_property
    def open_faults(self) -> Mapping[str, OpenFault]:
        """Return the faults of vLLM that stood open when their threads were read, those that end a server first."""
        file = self._open("open_faults.toml")
        faults = file.keyed("faults", OpenFault)
        for fault in faults.values():
            for architecture in fault.architectures:
                file.refer(f"faults.{fault.id}.architectures", architecture, self.architectures)
            for form in fault.weight_formats:
                file.refer(f"faults.{fault.id}.weight_formats", form, self.weight_formats)
        file.finish()
        return dict(sorted(faults.items(), key=lambda row: not row[1].stops_the_server))

    @property
    def slow_memory(self) -> Mapping[str, SlowMemory]:
        """Return the share of nominal bandwidth that weights are read at, by machine, where it is below that of its kind."""
        return self._measurements_file[0]

    @property
    def program_sizes(self) -> Mapping[tuple[str, bool], ProgramSize]:
        """Return what compiled programs were seen to need, by architecture and whether drafts are verified."""
        return self._measurements_file[1]

    @property
    def slow_prompts(self) -> Mapping[str, SlowPrompts]:
        """Return the rates at which prompts are worked on, by machine, where they are far below what others reach."""
        return self._measurements_file[2]

    @property
    def benchmarks(self) -> Mapping[str, Benchmark]:
        """Return the benchmarks that quality is told by."""
        return self._quality_file[0]

    @property
    def scores(self) -> Mapping[str, Score]:
        """Return the published scores, by model id."""
        return self._quality_file[1]

    @property
    def unscored(self) -> Mapping[str, Unscored]:
        """Return what is known of models without a published score, by model id."""
        return self._quality_file[2]

    @property
    def stage_times(self) -> Mapping[str, StageTime]:
        """Return how long the stages of a start take."""
        return self._starts_file[0]

    @property
    def read_rates(self) -> Mapping[str, ReadRate]:
        """Return how fast weights come, by path."""
        return self._starts_file[1]

    @property
    def loaded_sizes(self) -> Mapping[str, LoadedSize]:
        """Return what vLLM logged as loaded on one GPU, by model."""
        return self._measurements_file[3]

    @property
    def lock(self) -> Lock:
        """Return the digests and revisions that were resolved online; empty until somebody has pinned them.

        Read again when the file has changed: `gemma4 pin` writes it while `gemma4 mcp` goes on answering.
        """
        stamp = lock_stamp(self._directory)
        if self._lock is None or self._lock[0] != stamp:
            repositories = {**self.models, **self.assistants}
            self._lock = stamp, read_lock(self._directory, images=self.images, repositories=repositories)
        return self._lock[1]

    def model(self, model: str) -> Model:
        """Return the model of that id. Raises CatalogError, which names the nearest ids, where there is none."""
        return _get("model", self.models, model)

    def accelerator(self, accelerator: str) -> Accelerator:
        """Return the accelerator of that id. Raises CatalogError, which names the nearest ids, where there is none."""
        return _get("accelerator", self.accelerators, accelerator)

    def architecture_of(self, model: str) -> Architecture:
        """Return the decoder geometry of a model id."""
        return self.architectures[self.model(model).architecture]

    def assistant_of(self, model: str) -> Assistant | None:
        """Return the MTP drafter of a model id, None where there is none."""
        assistant = self.model(model).assistant
        return None if assistant is None else self.assistants[assistant]

    def price(self, sku: str, region: str | None = None) -> Price:
        """Return the list price of `sku` in `region`, else its tier-1 price, whose `region` is None: say so beside the figure.

        Raises CatalogError for a sku without any price.
        """
        rows = {row.region: row for row in self.prices if row.sku == sku}
        price = rows.get(region) or rows.get(None)
        if price is None:
            near = nearest(sku, {row.sku for row in self.prices})
            raise CatalogError(f"no price of {sku!r} for {region or 'any region'}{near}")
        return price

    def recipe(self, model: str, accelerator: str, profile: Profile | None = None) -> Recipe | None:
        """Return the base recipe of a pair, or what `profile` lays over it; None where there is none."""
        wanted = (model, accelerator, profile)
        return next((row for row in self.recipes if (row.model, row.accelerator, row.profile) == wanted), None)

    @cached_property
    def _models_file(
        self,
    ) -> tuple[Mapping[str, Architecture], Mapping[str, Assistant], Mapping[str, Model], Mapping[str, WeightFormat]]:
        file = self._open("models.toml")
        architectures = file.keyed("architectures", Architecture)
        assistants = file.keyed("assistants", Assistant)
        models = file.keyed("models", Model)
        formats = file.keyed("formats", WeightFormat)
        for model in models.values():
            file.refer(f"models.{model.id}.architecture", model.architecture, architectures)
            file.refer(f"models.{model.id}.weight_format", model.weight_format, formats)
            if model.assistant is not None:
                file.refer(f"models.{model.id}.assistant", model.assistant, assistants)
        file.finish()
        return architectures, assistants, models, formats

    @cached_property
    def _measurements_file(
        self,
    ) -> tuple[
        Mapping[str, SlowMemory],
        Mapping[tuple[str, bool], ProgramSize],
        Mapping[str, SlowPrompts],
        Mapping[str, LoadedSize],
    ]:
        file = self._open("measurements.toml")
        sizes = file.keyed("programs", ProgramSize).values()
        slow = file.keyed("slow_prompts", SlowPrompts).values()
        loaded = file.keyed("loaded", LoadedSize).values()
        memory = file.keyed("slow_memory", SlowMemory).values()
        for size in sizes:
            file.refer(f"programs.{size.id}.architecture", size.architecture, self.architectures)
        for row in loaded:
            file.refer(f"loaded.{row.id}.model", row.model, self.models)
        file.finish()
        return (
            {machine: row for row in memory for machine in row.machines},
            {(size.architecture, size.drafting): size for size in sizes},
            {machine: row for row in slow for machine in row.machines},
            {row.model: row for row in loaded},
        )

    @cached_property
    def _starts_file(self) -> tuple[Mapping[str, StageTime], Mapping[str, ReadRate]]:
        file = self._open("starts.toml")
        rows = file.keyed("stages", StageTime), file.keyed("read_rates", ReadRate)
        file.finish()
        return rows

    @cached_property
    def _quality_file(self) -> tuple[Mapping[str, Benchmark], Mapping[str, Score], Mapping[str, Unscored]]:
        file = self._open("quality.toml")
        benchmarks = file.keyed("benchmarks", Benchmark)
        scores = file.keyed("scores", Score)
        unscored = file.keyed("unscored", Unscored)
        for score in scores.values():
            file.refer(f"scores.{score.id}", score.id, self.models)
            file.refer(f"scores.{score.id}.benchmark", score.benchmark, benchmarks)
        for row in unscored.values():
            for model in row.models:
                file.refer(f"unscored.{row.id}.models", model, self.models)
        file.finish()
        return benchmarks, scores, {model: row for row in unscored.values() for model in row.models}

    def _open(self, name: str) -> CatalogFile:
        return CatalogFile(self._directory / name)


@cache
def catalog() -> Catalog:
    """Return the catalog that ships with this program, the same for the whole process."""
    return Catalog()


def _quotas_of(accelerator: Accelerator) -> Iterator[str]:
    """Yield the quotas that the platforms' own tables of a machine name."""
    if run := accelerator.cloud_run:
        yield from (run.quota, run.quota_zonal_redundancy)
    if tpu := accelerator.tpu:
        yield from (tpu.quota, tpu.quota_on_demand)
    if engine := accelerator.compute_engine:
        yield from (engine.quota, engine.quota_on_demand, engine.quota_all_regions)


def _get(kind: str, rows: Mapping[str, RowT], key: str) -> RowT:
    try:
        return rows[key]
    except KeyError:
        raise CatalogError(f"there is no {kind} {key!r}{nearest(key, rows)}. Known: {', '.join(rows)}") from None
