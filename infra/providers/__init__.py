"""Pulumi's dynamic resources of this program, each with its provider: what the gcp provider cannot do.

THE NAMES OF MODULES AND CLASSES HERE ARE FROZEN: the state of every deployed stack holds them
(tests/providers/test_frozen_names.py). Begin with `base`. Then one resource a module, by what it is for:
TPU slices: `tpu_queued_resource` (`slice_submission` submits it exactly once, and adopts an owned one whose
answer was lost), `tpu_node` (with `slice_wait`), `serving_spec`, `slice_cleanup` (removes what a killed process left).
Compute Engine: `compute_machine` (with `machine_wait`), and `serving_spec` as well.
Cloud Run: `revision_retry`, `revision_watch` (with `revision_wait`), `subnet_cleanup`.
All: `member_records` (the names by which a gateway finds machines), `grant_propagation`, `weights_copy`, `serving_check`
(with `server_context`: log lines and reasons).
"""
