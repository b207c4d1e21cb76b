"""The sandbox: steps that run upstream's code see and change only what they need."""
