"""Where a server runs: one object a platform, in a folder of its own, and one line in registry.py.

Nothing outside asks which platform it is: it asks the platform. Read base.py first. `Platform` is what holds for every stack
there: what a location is, what a server finds, the stages of a start, which settings do nothing, what is wrong. `Deployment`
is what one stack deploys and what follows from it: prices, quotas, its rows in a report. Then cloud_run/, tpu/ and
compute_engine/. behind_gateway.py and flex_start.py find what is wrong with machines behind a gateway and with capacity that
ends by itself, for the platforms that have them; renewal.py says how early a machine that Google ends is followed by the next.
How a deployment becomes resources stands in infra/components/<platform>/deploy.py; what only one platform's commands can ask,
in infra/ops/<platform>.
"""
