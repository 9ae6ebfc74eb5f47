"""What runs on a machine of its own: `bootstrap.sh` installs `gemma4_supervisor`, which keeps vLLM running. See README.md."""
