"""Images as the OCI specifications define them: digests, references, documents, layers."""
