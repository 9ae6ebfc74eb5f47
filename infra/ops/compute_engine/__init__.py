"""What can be asked about machines of Compute Engine that serve a stack.

`machine_state`       the state of one machine, as data; `read_machines` asks Google for it
`machine_next_step`   whether a machine serves, and the one thing to do about it
`machine_operations`  what runs of machines and gateway now, and for how long, as `gemma4 status` and `cost` ask it
`machine_look`        what `gemma4 diagnose` finds of the machines
"""
