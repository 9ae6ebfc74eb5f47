"""What only Cloud Run needs of the `gemma4` command.

`earlier_revision`    the way back to an earlier revision
`service_operations`  what runs of a GPU service now, and for how long it has run
"""
