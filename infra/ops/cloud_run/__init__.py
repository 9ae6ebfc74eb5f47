"""What only Cloud Run needs of the `gemma4` command.

`service_operations`  what runs of a GPU service now, and for how long it has run
"""
