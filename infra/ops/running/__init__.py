"""What runs of a stack now and for how long it has run, whatever its platform.

`platform_operations`  what each platform answers about its servers; one class a platform, in the platform's own folder
`capacity_by_zone`     what Google advises about a machine type in each zone
`machine_term`         a machine that Google may end: how far it is, and until when
`supervised_machine`   what a TPU slice and a machine with GPUs have in common: faults that the report shows, state in a line
`member_addresses`     which machines the stack's gateway finds by their names
`running_now`          what a platform found, and whether it serves as planned
`gateway_now`          the gateway before machines: whether it lets requests through, and what it has cost
`service_now`          a Cloud Run service as it is now: a GPU service, or the gateway before TPU slices
`usage`                for how long something ran, and what that costs at list prices
"""
