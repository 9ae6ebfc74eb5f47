"""Keeps the vLLM containers of a machine with TPU chips or GPUs running, as the machine's metadata describe them.

Read `controller` (which specification is to run), `preparation` (fetches what it needs: the image by `docker`, weights by
`weight_staging` from `bucket_reader`, the token by `huggingface`), `server_group` (which of the machine's servers is started
or changed next), `server_lifecycle` (one server from start to start), then `serving_slot` with `server_container` and `probe`.
`accelerators` are the chips or GPUs of a container; `all_reduce_check` runs `all_reduce_program` on GPUs that work together.
`cleanup` removes what nothing needs any more. `membership` makes the machine known to gateways by its `dns_record`, and has it
finish its requests where it is drained; `readiness_server` tells them which servers take requests.
`desired_spec`, which `metadata_server` reads, is the input; `machine_status`, `log` and `cloud_log` are the output; `state`,
which `whole_file` writes, outlives a restart. All parts get `context`, with `supervisor_settings`. `installation` puts a new
version of this program into place. ../README.md describes the behaviour. Standard library only, Python 3.10 or later.
"""
