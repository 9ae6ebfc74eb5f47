"""How fast a server answers, and how long it takes to start: predictions, each with its band and its sources.

Read in this order: `decode` (the time of one step: a roofline fitted to public runs), `prompts` (the time to the first
token, and the rate when every request brings a new prompt), `speed` (tokens a second, and the number of running requests
that each profile recommends), `startup` (from nothing to the first answer, stage by stage), `evaluation_time` (what the
questions of serving.evaluation add to the check). The constants say what they were fitted to; the tests hold the measurements.
"""
