"""Pulumi's dynamic resources of this program, each with its provider: what the gcp provider cannot do.

THE NAMES OF MODULES AND CLASSES HERE ARE FROZEN: the state of every deployed stack holds them
(tests/providers/test_frozen_names.py). Begin with `base`. Then one resource a module, by what it is for:
TPU slices: `tpu_queued_resource` (what is asked for, and whatever carries its ticket), `tpu_node` (asks, by
`slice_submission`, exactly once a ticket; and waits, by `slice_wait`).
Compute Engine: `compute_machine` (with `machine_wait`).
Machines of both: `serving_spec`; `capacity_wait` is how one is waited for, `machine_drain` how one finishes before its end.
Cloud Run: `revision_retry`, `revision_watch` (with `revision_wait`), `subnet_cleanup`.
All: `member_records` (the names by which a gateway finds machines), `grant_propagation`, `weights_copy`, `serving_check`
(with `server_context`: log lines and reasons).
"""
