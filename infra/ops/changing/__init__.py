"""Commands that change what runs: each shows what it would do, asks, and does it.

`pause`       pause and resume: a setting of the stack file, and `pulumi up`
`renew`       a machine replaced before Google ends it; `renewal_decision` says whether one must be, without asking anybody
`rollback`     back to what was served before, checked
`way_back`     what a platform says of it: ../cloud_run/earlier_revision.py, or
`earlier_spec` the specification before, of machines with TPUs or GPUs
`run_pulumi`  the Pulumi CLI, with its output where it disturbs no data
`ask_first`   the question before a change
"""
