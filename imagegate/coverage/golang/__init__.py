"""Go's own rules, which every builder inherits: ``path/filepath`` and ``regexp``."""
