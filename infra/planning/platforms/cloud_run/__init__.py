"""Cloud Run with a GPU: cloud_run_platform.py is the object, instances.py what is deployed with its prices and quotas,
startup_probe.py and quota_checks.py what can be wrong with it."""
