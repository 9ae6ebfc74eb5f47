"""Machines of Compute Engine with GPUs: deploy.py wires a stack.

machine_template.py: what a machine is made of, and its health check. managed_machine.py: one machine of a name, which a
managed group makes anew where it fails. machine_attributes.py: what it is told beyond what every machine is told.
"""
