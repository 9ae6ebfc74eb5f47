"""TPU slices behind a gateway: tpu_platform.py is the object, slices.py what is deployed with its prices and quotas.

slice_checks.py: zones that are known not to give slices. slice_notes.py: what a reader should know beside it.
"""
