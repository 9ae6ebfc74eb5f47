"""Preflight: what would stop `pulumi up`, asked before anything is paid for. Nothing here creates or changes anything.

`preflight_check`       what a check is, and what it answers: ok, failed, unknown or not needed
`subject`               what the checks look at: a plan, its resources, the stack's state, a way to Google
`run_checks`            asks them side by side, a few at a time

The checks: `project_checks` (credentials, project, billing, APIs), `permission_checks` with the table in
`required_permissions`, `organization_checks`, `granted_quotas`, `image_checks`, `weight_checks`, `free_names`,
`pulumi_checks`; a folder for each platform (`cloud_run/`, `tpu/`, `compute_engine/`) with those that only it needs;
`all_checks` lists them for a plan.

`before_up`             the few that `pulumi up` asks by itself
"""
