"""A named target of the configuration -> a live provider."""
