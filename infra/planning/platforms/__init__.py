"""Where a server runs: one object a platform, in a folder of its own, and one line in registry.py.

Nothing outside asks which platform it is: it asks the platform. Read base.py first. `Platform` is what holds for every stack
there: what a location is, what a server finds, the stages of a start, which settings do nothing, what is wrong. `Deployment`
is what one stack deploys and what follows from it: prices, quotas, its rows in a report. Then cloud_run/, tpu/ and
compute_engine/, which share the gateway before their machines: behind_gateway.py is what both deploy,
behind_gateway_platform.py what holds for both platforms, behind_gateway_checks.py what is wrong with such machines, and
flex_start.py with the terms on which they are asked for; renewal.py says how early a machine that Google ends is followed by
the next.
How a deployment becomes resources stands in infra/components/<platform>/deploy.py; what only one platform's commands can ask,
in infra/ops/<platform>.
"""
