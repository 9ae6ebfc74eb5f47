"""TPU slices behind a gateway: tpu_platform.py is the object, slices.py what is deployed with its prices and quotas."""
