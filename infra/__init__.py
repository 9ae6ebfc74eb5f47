"""gemma4: serve Gemma 4 with vLLM on Google Cloud, decided, priced and checked before anything is paid for."""

import os

# Pydantic would search every installed package for plugins before its first model: a third of a plan's time for nothing.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
