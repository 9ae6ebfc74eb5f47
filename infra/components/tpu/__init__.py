"""TPU slices: deploy.py wires a stack.

tpu_slice.py: the queue entry and the machine.
"""
