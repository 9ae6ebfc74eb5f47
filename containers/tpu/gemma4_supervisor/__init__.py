"""Keeps one vLLM container running on a TPU machine, as the node's metadata describe it.

Read `controller` (which specification is to run), `preparation` (fetches image, weights, token), `server_lifecycle` (one
specification from start to start), then `serving_slot` with `docker`, `firewall` and `probe`. `desired_spec` is the input,
`machine_status`, `log` and `cloud_log` are the output, `state` and `staged_files` outlive a restart. `installation` puts a
new version of this program into place. ../README.md describes the behaviour. Standard library only, Python 3.10 or later.
"""
