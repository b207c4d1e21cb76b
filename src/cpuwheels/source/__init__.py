"""vLLM sources: found by version or path, pinned by content, unpacked safely, never changed afterwards."""
