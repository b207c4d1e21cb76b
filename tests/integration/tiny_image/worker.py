"""The process that computes."""

import signal

from vllm.server import mapped

held = mapped()
print("ready", flush=True)
signal.pause()
