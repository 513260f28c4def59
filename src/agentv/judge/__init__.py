"""Lending the judge to one `code_judge` execution, without lending the credentials.

`ledger.py` counts, `session.py` is the permission (no HTTP), `app.py` says what HTTP means here (no sockets),
`http1.py` and `connection.py` are one connection, `proxy.py` is the lifetime.
"""
