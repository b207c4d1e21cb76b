"""Container images of a wheel: layers, OCI layout, push and check, without a container engine or root."""
