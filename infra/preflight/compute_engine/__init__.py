"""What only machines of Compute Engine need: `machine_preflight`."""
