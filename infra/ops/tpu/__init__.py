"""The commands about TPU slices: `gemma4 tpu status` and `gemma4 tpu ended`.

`tpu_commands`     the commands: whom they ask, what they print, their exit codes
`slice_status`     the status of one slice, as data; `read_slices` asks Google for it
`next_step`        whether a slice serves, and the one thing to do about it
`slice_look`       what `gemma4 diagnose` finds of the slices
`status_lines`     the status in lines for a terminal
`slice_operations`  what runs of slices and gateway now, and for how long, as `gemma4 status` and `cost` ask it
`orphans`          slices with a stack's labels that its file no longer names, or its state does not know
`request_owner`    whose a queued resource is, and whether the stack's state knows it
`ended_requests`   queued resources that have ended and still hold quota, and their deletion
`queue_listing`    the queued resources of all zones
`zone_survey`      the zones with the quota for one more slice, for `gemma4 zones`
"""
