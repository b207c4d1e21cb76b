"""What every stage uses: errors, processes, the store, files, digests, binaries, threads; nothing of vLLM."""
