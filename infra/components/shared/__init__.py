"""Components that every platform builds from.

foundation.py: APIs, accounts, the token. images.py and weights.py: what is served. network.py, private_service.py and
gateway.py: how it is reached. serving_check_args.py and stack_outputs.py: what is checked and exported in the end.
"""
