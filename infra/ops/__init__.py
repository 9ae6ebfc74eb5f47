"""The `gemma4` command. A command is declared in `command_line/` and answered by one function, which the command, its `--json`
and the MCP tool of the same name share: look for `<name>_answer`.

The way of a command:
`cli`            runs one command line, and ends with a message and an exit code
`command_line/`  arguments, options and help of every command, a module a group
`commands/`      answers most of them, a module each; the rooms below answer the others, or help
`answers/`       the form of what each prints with `--json`; a plan's is infra/planning/report/data_models.py
`mcp_server/`    the same questions as tools for assistants
`terminal/`      how answers, waits and failures are printed, words completed, and corrected when mistyped

Rooms that answer:
`conversation/`  ask, chat
`changing/`      pause, resume, rollback
`evaluations/`   evaluate
`tpu/`           tpu status, tpu ended, zones; and what only slices need of `running/`
`compute_engine/`  what only machines of Compute Engine need of `running/` and `diagnosing/`

Rooms that help one command:
`benchmarking/`  bench run: finds the grid, measures it and shows it
`diagnosing/`    diagnose: what it looks at
`live_metrics/`  metrics: reads and shows figures, once or again and again
`pinning/`       pin: what it reads of a checkpoint
`running/`       status, cost: what runs now and for how long, whatever its platform; `cloud_run/` what only Cloud Run needs

What they stand on:
`plan_inputs`      from a command line to a plan: project folder, stack file, `--set` values, saved plans
`program`          runs the real Pulumi program in memory, for the list of resources that a plan leads to
`endpoint/`        finds what serves: by a stack's state or by a URL
`pulumi_cli`       what the Pulumi CLI says of itself and of the names in a stack's state
`google_access`    which credentials and endpoints a command uses
`log_sources`      where the parts of a stack write their logs
`program_version`  the version of this program
"""
