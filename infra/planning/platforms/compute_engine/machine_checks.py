"""What is known not to work, or to be wasted, with machines: zones, types, memory, disk and quotas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from infra.catalog import GIB, Accelerator, catalog
from infra.errors import Fault, Findings
from infra.planning.names import region_of
from infra.planning.platforms.base import QUOTAS_PAGE, Draft
from infra.planning.platforms.compute_engine.machine_starts import SYSTEM_BYTES, UNPACKED_BYTES, least_disk_gb
from infra.planning.platforms.compute_engine.machines import MachinesPlan, limits_of
from infra.planning.server.user_flags import SPREADING_FLAGS, serving_flags
from infra.planning.settings.declarations import Settings
from infra.planning.units import counted, read_usd

MEMORY_DISK_SHARE = 0.5
"""Share of a machine's memory that /dev/shm holds unless somebody mounts it anew: the default of Linux."""
_LATE = "The machine would be refused after images and weights are in place."


def bad_machine_settings(settings: Settings) -> Iterator[Fault]:
    """Yield what is wrong in itself with the settings of machines."""
    machine = settings.machine
    if len(set(machine.names)) < len(machine.names):
        fact, consequence = "names a machine twice.", "Two machines would share one record."
        yield Fault("machine.names", fact, consequence, "Write [blue, green].")
    if len(set(machine.shapes)) < len(machine.shapes):
        yield Fault("machine.shapes", "names a type twice.", "The second would have no effect.", "Write each once.")
    regions = {region_of(zone): zone for zone in machine.zones}
    if len(regions) > 1:
        fact = f"{' and '.join(regions.values())} are in different regions."
        consequence = "The machines' subnet and addresses are in one."
        yield Fault("machine.zones", fact, consequence, "Write zones of one region, and another stack for the other.")


def check_zones(zones: Sequence[str], accelerator: Accelerator) -> Findings:
    """Refuse a zone whose region does not list the machine; warn of one in which nobody is known to have had it."""
    refusals, warnings, limits = [], [], limits_of(accelerator)
    first, *others = accelerator.locations
    for zone in zones:
        if zone in accelerator.locations:
            continue
        if region_of(zone) in limits.listed_regions:
            fact = f"{region_of(zone)} lists {accelerator.machine_type}, but nobody is known to have had one in {zone}."
            consequence = "If the zone has none, the machine is refused after images and weights are in place."
            fix = f"Seen: {', '.join(accelerator.locations)}. gemma4 zones asks Google, for nothing."
            warnings.append(Fault("machine.zones", fact, consequence, fix))
        else:
            fact = f"{zone} is not known to offer {accelerator.title}."
            fix = f"Write machine.zones: [{first}], or {', or '.join(others)}; docs/gpu-machines.md lists more regions."
            refusals.append(Fault("machine.zones", fact, _LATE, fix))
    return Findings(tuple(refusals), tuple(warnings))


def check_machines(draft: Draft, machines: MachinesPlan) -> Findings:
    """Return what is wrong with the machines, beside what holds for all that stand behind a gateway."""
    return _MachineFaults(draft, machines).all()


@dataclass(frozen=True)
class _MachineFaults:
    """The checks of one stack's machines."""

    draft: Draft
    machines: MachinesPlan

    def all(self) -> Findings:
        """Return everything that is wrong."""
        refusals = (
            *self._spread(),
            *self._shapes(),
            *self._memory_disk(),
            *self._unpinned_system(),
            *self._flex_start(),
        )
        return Findings(refusals, (*self._idle_gpus(), *self._alone(), *self._quotas())) + self._disk()

    def _flex_start(self) -> Iterator[Fault]:
        """Refuse flex-start, which nothing here builds, and of which Google's page says that it leaves G4 out."""
        if self.machines.provisioning != "flex-start":
            return
        fact = (
            "flex-start is not built for machines: Google's page of Flex-start VMs takes all accelerator-optimized types "
            "except A4X and G4 (cloud.google.com/compute/docs/instances/about-flex-start-vms)."
        )
        fix = "Write spot, which is cheaper still and comes back by itself, or on-demand, which stays."
        yield Fault("machine.provisioning", fact, "Compute Engine would refuse the machine.", fix)

    def _spread(self) -> Iterator[Fault]:
        """Refuse flags by which one server would take the GPUs of another."""
        for written in self.draft.settings.vllm_args if self.machines.together > 1 else ():
            if (flag := serving_flags(self.draft.settings).main_spelling(written)) in SPREADING_FLAGS:
                fact = f"{flag} needs more GPUs than one of the {self.machines.together} servers on the machine has."
                fix = "Take it out: the machine runs a server for each serving.tensorParallelSize GPUs already."
                yield Fault(f"vllmArgs.{written}", fact, "The server would stop at its start.", fix)

    def _shapes(self) -> Iterator[Fault]:
        """Refuse machine types on which these servers cannot run."""
        accelerator = self.draft.accelerator
        alike = {
            one.machine_type: one
            for one in catalog().accelerators.values()
            if (one.platform, one.bandwidth) == (accelerator.platform, accelerator.bandwidth)
        }
        fitting = ", ".join(str(shape) for shape, one in alike.items() if one.devices >= accelerator.devices)
        for shape in self.machines.shapes:
            if shape not in alike:
                fact = f"{shape} is not a machine of the catalog with the GPUs of {accelerator.id}."
                yield Fault("machine.shapes", fact, _LATE, f"Write machine.shapes: [{fitting}], or some of these.")
            elif alike[shape].devices < accelerator.devices:
                has = counted(alike[shape].devices, "GPU")
                fact = f"{shape} has {has}, and the servers of {accelerator.id} need {accelerator.devices}."
                consequence = "They would not start on it."
                fix = f"Write machine.shapes: [{fitting}], or accelerator: {alike[shape].id} for the smaller one."
                yield Fault("machine.shapes", fact, consequence, fix)

    def _memory_disk(self) -> Iterator[Fault]:
        """Refuse weights that /dev/shm does not hold."""
        there = MEMORY_DISK_SHARE * (self.draft.server.hosting.memory_gib or 0)
        needed = self.draft.server.model.checkpoint_bytes / GIB
        if there and needed > there:
            fact = f"{needed:,.1f} GiB of weights are copied into /dev/shm, which holds {there:,.1f} GiB: half of the memory."
            consequence = "The copy would end in an error, on a machine that is paid for."
            yield Fault("accelerator", fact, consequence, "Use a larger machine, or a smaller checkpoint.")

    def _unpinned_system(self) -> Iterator[Fault]:
        if self.draft.settings.images.require_pinned and "/family/" in self.machines.image:
            fact = f"{self.draft.settings.machine.image} is a family, whose newest image changes."
            consequence = "images.requirePinned forbids that: a machine made anew could boot another system and driver."
            yield Fault("machine.image", fact, consequence, "Write one build, for example cos-125-19216-532-108.")

    def _idle_gpus(self) -> Iterator[Fault]:
        """Warn of GPUs that are always paid for beside the servers: those of the first shape."""
        idle = self.machines.gpus - self.draft.accelerator.devices
        if idle > 0:
            fact = f"{self.machines.shapes[0]}, the first, has {idle} GPUs more than the servers use."
            fix = f"Write machine.shapes: [{self.draft.accelerator.machine_type}], or another accelerator."
            yield Fault("machine.shapes", fact, "They are paid for and idle.", fix)

    def _alone(self) -> Iterator[Fault]:
        """Warn of a lone machine that may be taken back."""
        if self.machines.provisioning == "spot" and self.machines.machines == 1:
            fact = "spot may be taken back at any time, and there is no second machine."
            consequence = "Callers get 503 until Google has another, which may take hours."
            fix = "Write machine.names: [blue, green], or machine.provisioning: on-demand, or live with it."
            yield Fault("machine.names", fact, consequence, fix)

    def _quotas(self) -> Iterator[Fault]:
        """Warn of quotas beyond what a new project has."""
        beyond = [need for need in self.draft.quotas if need.beyond_default()]
        if beyond:
            amounts = ", ".join(f"{need.amount:g} {need.quota.unit} of {need.quota.id}" for need in beyond)
            usual = ", ".join(f"{need.quota.default:g}" for need in beyond)
            fact = f"the stack needs {amounts}; a new project was seen to have {usual}."
            fix = f"Before the first up, look at {QUOTAS_PAGE} and ask for more."
            yield Fault("accelerator", fact, _LATE, fix)

    def _disk(self) -> Findings:
        """Refuse a disk that does not hold one serving image, warn of one that does not hold two."""
        size, two = self.machines.disk.size_gb, least_disk_gb()
        one = round((SYSTEM_BYTES + UNPACKED_BYTES.high) / 1e9)
        if size >= two:
            return Findings()
        images = "the serving image" if size < one else "two serving images, as a change of the image needs"
        fact = f"{size} GB do not hold the system and {images}: about {one if size < one else two} GB."
        consequence = (
            "The image could not be pulled." if size < one else "A change of the image would fail for want of room."
        )
        fault = Fault(
            "machine.diskGb", fact, consequence, f"Write at least {two}, at about {read_usd(0.09)} a GB and month."
        )
        return Findings((fault,)) if size < one else Findings(warnings=(fault,))
