"""The gateway before servers that have no address of their own on the internet: a Cloud Run service with HAProxy.

service_limits.py: what Cloud Run takes of any service, also of one with a GPU. limits.py: how much the gateway lets in.
gateway_checks.py: which of its settings would do nothing. members.py: which servers there may be, by name. haproxy.py: its
configuration as a pure function of these names. routing.py: what decides among those that are ready. local_answers.py: what
it answers itself. container.py: how it starts and ends.
"""
