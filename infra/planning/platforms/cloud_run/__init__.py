"""Cloud Run with a GPU: cloud_run_platform.py is the object, instances.py what is deployed with its prices and quotas.

startup_probe.py decides the window of the startup probe, and checks one that a user chose. instance_checks.py and
quota_checks.py: what else can be wrong with an instance, and with how many of them there may be.
"""
