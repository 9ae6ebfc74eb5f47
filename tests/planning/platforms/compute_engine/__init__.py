"""Machines of Compute Engine, as they are planned."""
