"""The process that computes."""

import signal

from vllm.server import mapped

held = mapped()
signal.pause()
