"""What is wrong, doubtful or worth knowing of a plan, whatever its platform.

setting_values.py: what cannot be read as settings. combination.py: what this model on this machine cannot do.
adapter_checks.py: what cannot be done with LoRA adapters. serving_image.py and pins.py: what is known of images by their
names. ignored.py: settings that do nothing. reading_pace.py: streams slower than people read. open_faults.py: faults of vLLM
that a configuration may meet. notes.py: what to know beside the numbers. What is wrong only on one platform is found in
infra/planning/platforms/<platform>, what does not fit in infra/planning/memory/verdict.py.
"""
