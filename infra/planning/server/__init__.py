"""The vLLM server: one value that describes it, and the command line that starts it.

Read in this order: `server` (Server: every default resolved; memory, speed and start are estimated from it),
`served_weights` (what it holds of each kind of tensor), `hosting`
(what follows from the place where it runs), `implementations` (what vLLM does differently on GPU and on TPU, as facts),
`flag_owners` (which setting becomes which flag, read off the declarations), `command` (argv, environment and the hash that
names them), `user_flags` (what `vllmArgs` may say). `start_on_gpu.sh` runs in the container before vLLM and chooses the CUDA
driver library.
"""
