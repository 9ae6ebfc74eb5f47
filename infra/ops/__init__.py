"""The `gemma4` command: `cli` runs it, `command_line/` names the words, one module of `commands/` answers each.

`plan_inputs`    from a command line to a plan: project folder, stack file, `--set` values, saved plans
`program_version`  the version of this program
`program`        runs the real Pulumi program in memory, for the list of resources that a plan leads to
`command_line/`  arguments, options and help of every command
`commands/`      plan, stacks, recommend, models, machines, explain, pin, preflight, status,
                 scorecard, bench
`benchmarking/`  how `gemma4 bench` finds its grid, measures it and shows it
`pulumi_cli`     what the Pulumi CLI says of itself and of the names in a stack's state
`evaluations/`  asks a server questions with known answers, and compares such runs
`live_metrics/`  what `gemma4 metrics` reads and shows, once or again and again
`conversation/`  ask, chat: talking with the model
`pinning/`       what `gemma4 pin` reads of a checkpoint
`diagnosing/`   what `gemma4 diagnose` looks at
`running/`       what runs of a stack now and for how long, whatever its platform
`cloud_run/`     what only Cloud Run needs of that
`tpu/`           what only TPU slices need: their state, zones with capacity, ended requests, orphans
`changing/`      commands that change what runs
`mcp_server/`    the same questions as tools for assistants
`terminal/`      how answers and failures are printed, completed, and corrected when mistyped
`answers/`       the form of what each command prints with `--json`; a plan's is infra/planning/report/data_models.py
`endpoint/`      finds what serves: by a stack's state or by a URL
`log_sources`    where the parts of a stack write their logs
`google_access`  which credentials and endpoints a command uses
"""
