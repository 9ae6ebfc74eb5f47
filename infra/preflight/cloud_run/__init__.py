"""What only Cloud Run's instances need: `instance_preflight`."""
