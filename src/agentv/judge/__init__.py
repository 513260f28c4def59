"""Judge access for evaluators and scripts, without giving them the credentials.

`choice.py` picks the judge target, `lending.py` opens a session for one execution, `session.py` makes the calls (no
HTTP), `ledger.py` counts them, `proxy.py` serves a session to a script over HTTP, and `cache.py` reuses replies.
"""
