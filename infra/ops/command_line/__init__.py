"""The words of the `gemma4` command: arguments, options and help. Each command hands on to one function of `../commands/`.

`root`                the command itself, and the sections of its help
`options`             what several commands take, and how examples are written
`planning_commands`   before anything is deployed: plan, stacks, models, machines, explain, recommend, scorecard, pin,
                      preflight
`operating_commands`  of a stack that runs: status, check, cost
`measuring_commands`  how fast and how good a server is: bench run, bench compare, bench report, evaluate
`trouble_commands`    what logs and conditions say of a stack: logs
`asking_commands`     of the model itself: ask
`measuring_commands`  how fast and how good a server is: bench run, bench compare, evaluate
`trouble_commands`    what logs and conditions say of a stack: logs, diagnose
`measuring_commands`  how fast and how good a server is: bench compare
`asking_commands`     of the model itself: ask, chat
`counter_commands`    what a server's own counters say: metrics, memory
`connecting_commands` for other programs that ask the model: env, proxy
`slice_commands`      of TPU slices: zones, tpu status, tpu ended
`changing_commands`   of a stack that runs, with a question first: pause, resume
`assistant_commands`  for assistants: mcp
`all_commands`        brings them together
"""
