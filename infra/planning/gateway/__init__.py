"""The gateway before servers that have no address of their own on the internet: a Cloud Run service with HAProxy.

service_limits.py: what Cloud Run takes of any service, also of one with a GPU. limits.py: how much the gateway lets in.
gateway_checks.py: which of its settings would do nothing. members.py: which servers there may be, by name. haproxy.py: its
configuration as a pure function of these names. routing.py: the form of what decides among those that are ready,
chosen_routing.py: what the settings make of it: affinity.py, which of them a request goes to, and fairness.py, how much one
caller may have and whose requests go first. local_answers.py: what it answers itself. container.py: how it starts and ends.
"""
