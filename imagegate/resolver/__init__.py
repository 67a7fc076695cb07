"""The added distributions: resolved against a fixed base, fetched by hash."""
