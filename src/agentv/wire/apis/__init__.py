"""The APIs of model vendors that the judge proxy also speaks: one file per API, listed in `registry.py`. No HTTP."""
