"""Starting other people's scripts: one small helper process per run starts them, and nothing of them survives."""
