"""What `gemma4 diagnose` looks at, and what it finds there. Read in this order:

`findings`         a finding, a place that was looked at, and all of them together
`machine_findings` what is found of a machine with a supervisor, a TPU slice or one with GPUs
`log_look`         the log of a stack, or a saved one
`service_look`     what Cloud Run says of the service or the gateway; a platform with more brings a module of its own
`server_look`      the server itself: health, a short answer, its metrics
`model_summary`    what the served model makes of it, asked with the lines as data
"""
