"""Run scripts through one small helper process per run, which kills everything a script leaves behind."""
