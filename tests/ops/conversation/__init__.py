"""Talking with the model: tests of infra/ops/conversation."""
