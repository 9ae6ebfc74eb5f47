"""Machines with GPUs behind a gateway: machine_platform.py is the object, machines.py what is deployed, with prices and quotas.

machine_checks.py: what is wrong with zones, types, disks and quotas. machine_starts.py: the stages of a first start.
"""
