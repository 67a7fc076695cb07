"""What a host has that a launch depends on."""
