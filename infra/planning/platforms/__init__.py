"""Where a server runs: one object a platform, in a module or folder of its own, and one line in registry.py.

Nothing outside asks which platform it is: it asks the platform. Read base.py first: `Platform` is what holds for every
stack on it (what a location is, which settings do nothing there), `Deployment` is what one stack deploys and all that
follows from it (prices, quotas). Then cloud_run/, tpu/ and compute_engine.py. How a platform's
deployment becomes resources stands in infra/components/<platform>, what only its commands can ask in infra/ops/<platform>.
"""
