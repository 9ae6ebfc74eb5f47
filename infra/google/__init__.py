"""Clients of Google Cloud's APIs and of the registries, without Pulumi. Read in this order:

`gcp_settings` (which project, endpoints and credentials), `credentials`, `session` (every request goes through it: retries,
time-outs), `api_errors` and `refusals` (what an error means and what to do). Then one module an API: `tpu_zone` with its
types in `tpu_types`, `compute_zone` (machines and managed groups of Compute Engine) with its types in `compute_types`,
`metadata_change` (how attributes of either are changed), `supervisor_report` (what the supervisor on one last wrote),
`capacity_advice` (how likely a machine is to be had, and what spot has cost),
the owner and end of a slice in `slice_records` and what counts against a quota in `tpu_chips`, `cloud_run`, `dns_records`,
`monitoring`, `storage` with a folder's list of files in `weights_manifest`, `subnets`, `logs`, `quota_limits`,
`project` (billing, APIs, permissions). `system_attributes` are those of a machine that Google's own programs read.
`identity_tokens` makes the tokens for a private Cloud Run service,
`upstream_versions` looks up image digests and model commits, `hub_files` reads parts of files on Hugging Face, `times` reads
and writes moments and durations as Google does.
"""
