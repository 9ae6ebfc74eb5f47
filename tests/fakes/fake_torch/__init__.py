"""A folder for the PYTHONPATH of a process that is to find `torch`, a package of a few functions, in place of the real one."""
