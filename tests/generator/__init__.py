"""Random forms of files that decide what runs: what the real programs take, and what the gate says."""
