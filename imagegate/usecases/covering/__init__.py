"""Steps of `imagegate coverage`: contexts, git, what is asked for, ``coverage.toml``."""
