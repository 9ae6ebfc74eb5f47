"""Components that every platform builds from.

foundation.py: APIs, accounts, the Hugging Face token. images.py and weights.py: what is served. packed_programs.py: the
programs that machines and jobs run. network.py, gateway.py and member_zone.py: how it is reached. private_service.py: what
every Cloud Run service shares, and who may call it; grant_names.py names such a grant.
Of machines, on whichever platform: machine_network.py and machine_access.py say where they are and what they may do,
machine_metadata.py what they are told, rollout.py what they serve, one after the other; surroundings.py puts together all
that stands around them.
serving_check_args.py and stack_outputs.py: what is checked and exported in the end.
compute_resource.py: resources of Compute Engine without the large module that pulumi_gcp has for them.
"""
