"""The models of the configuration files; nothing here reads the network or starts a process."""
