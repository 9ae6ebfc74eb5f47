"""The form of what each command prints with `--json`: docs/json.md and docs/schemas/ are made from these models.

Keys are camelCase and only ever added, unless `schema` changes; times end in S, moments are RFC 3339 in UTC, money begins
with usd. null means unknown, an empty text that there is nothing to say. The tests hold every answer to its model.

`answer_base`        what all answers share, how they are printed, and failures
`planning_answers`   stacks, recommend, explain, models, machines, pin
`preflight_answers`  preflight
`status_answers`     status
`evaluation_answers` evaluate
`log_answers`        logs
`metrics_answers`    metrics
`memory_answers`     memory
`connection_answers` env
`diagnosis_answers`  diagnose
`proof_answers`      check
`cost_answers`       cost
`slice_answers`      tpu status, tpu ended, zones
`pause_answers`      pause, resume
`renewal_answers`    renew
`rollback_answers`   rollback
`scorecard_answers`  scorecard
`benchmark_answers`  bench run
`comparison_answers`  bench compare
`conversation_answers`  ask
`all_answers`        by command, the model of its answer; a plan's is infra/planning/report/data_models.py
"""
