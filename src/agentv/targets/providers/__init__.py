"""One file per provider, imported when a target first uses it."""
