"""A Pulumi program with nothing but the TPU slices of a stack: what the engine does with them, in seconds."""

import signal

import pulumi

from infra.components.tpu.tpu_slice import TpuSlice, TpuSliceArgs
from infra.config import load
from infra.planning.platforms.tpu.slices import SlicesPlan

signal.signal(signal.SIGINT, signal.SIG_DFL)

plan, _ = load()
slices = plan.deployment
assert isinstance(slices, SlicesPlan)
for name in slices.names:
    made = TpuSlice(
        f"slice-{name}",
        TpuSliceArgs(
            plan=plan,
            slices=slices,
            slice=name,
            network=f"projects/{plan.names.project}/global/networks/n",
            subnetwork=f"projects/{plan.names.project}/regions/us-east5/subnetworks/s",
            tag="gemma4",
            account=plan.names.email(plan.names.prefix),
            dns_zone=plan.names.prefix,
            metadata={"gemma4-spec": plan.command.spec_hash},
            ready=[],
        ),
    )
    pulumi.export(f"instance-{name}", made.instance)
