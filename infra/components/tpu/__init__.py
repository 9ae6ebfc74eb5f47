"""TPU slices: deploy.py wires a stack.

slice_network.py and slice_access.py: where the machines are and what they may do. slice_metadata.py: what they are told.
tpu_slice.py: the queue entry and the machine. rollout.py: what the slices serve, one after the other.
"""
