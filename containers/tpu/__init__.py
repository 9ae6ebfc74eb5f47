"""What runs on a TPU machine: `bootstrap.sh` installs `gemma4_supervisor`, which keeps vLLM running. See README.md."""
