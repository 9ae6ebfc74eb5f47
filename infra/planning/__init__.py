"""From a stack file to a Plan: everything that can be decided, priced and judged without the cloud.

`planner.make_plan` is the way in and `plan.Plan` the way out; read `planner` first, it tells the story in order:

`settings/`     what a stack file may say, how it is read, and the message for each way of getting it wrong
`artifacts`, `names`   images and checkpoints that the stack uses, and its names in the cloud
`checkpoint`    which checkpoint is served: the model's own, or another one that somebody counted
`server/`       the vLLM server: its limits, its command line and environment
`memory/`       whether the server fits its devices, and how many tokens and requests it holds
`performance/`  how fast it answers and how long it takes to start
`platforms/`    one object a platform: where it runs, what is deployed, rented, limited and warned of there
`gateway/`      the proxy before the servers of one stack
`cost/`         what an hour, a month and a million tokens cost
`checks/`       combinations that cannot work, settings without effect, and what a reader should know
`report/`       the Plan as text, JSON, a pull request's comment, and the difference of two
`recommend`     many plans for a need; `candidates` says what a need and a candidate are, `ranking` which goes first and why
`scorecard/`    runs that others published, beside what is predicted for them
`units`         a predicted figure with its band, and durations
"""
