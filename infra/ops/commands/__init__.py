"""One module for each question of the `gemma4` command; `../cli.py` reads the options and calls one of them.

`plan`            one stack: its first screen, parts of it, data, or what changes; `plan_screen` the screen for an assistant
`stack_list`      all stack files, a line each
`recommend`       a need: what could serve it, ranked
`catalog_lists`   the models and the machines that there are
`explain`         a setting; `explain_terms` finds models, machines and flags, `glossary` holds the words
`bench`           a benchmark of what serves: what `../benchmarking/` measures, as an answer
`status`          what runs now and what the last check measured; `own_runs` writes that as rows for the scorecard
`cost_so_far`     what a stack has cost by its running time, and would cost at so many hours a day
`logs`            what servers, gateway and weights copy wrote, once or as it comes
`diagnose`        what is wrong, with evidence, cause and fix; `../diagnosing/` looks at each place
`check_again`     proves that a server does what is planned; `measured_figures` sets it beside the prediction
`scorecard`       runs that others published, beside their predictions
`bench_compare`   two stored benchmarks, and what of their difference is noise; `bench_words` spells figures of benchmarks
`bench_report`    plots of stored benchmarks, and a page of them
`zones`           where a machine can be had: quotas of TPUs, and Google's advice
`preflight`       what would stop `pulumi up`, asked before anything is paid for
`read_metrics`    what a server does now and has done
`memory`          how servers have laid out their KV cache, beside the plan
`env`             address and token for other programs; `proxy` serves the same on this machine
`pin`             images and checkpoints, fixed to what they are now
"""
