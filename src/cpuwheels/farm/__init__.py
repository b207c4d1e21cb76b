"""Many jobs, on this machine or on others: a graph of them, what each machine can do, and who runs them."""
