"""What only TPU slices need: `slice_preflight`."""
