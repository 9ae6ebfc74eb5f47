"""Finds what serves: by the name of a stack, whose state says where it answers, or by a URL.

`stack_state`    outputs and check results in a stack's state, as the Pulumi CLI exports it
`endpoint`       an address with its servers, and clients of them that bring their identity token
`find_endpoint`  from a command line's stack or --url to the endpoint
"""
