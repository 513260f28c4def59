"""Lending the judge to one `code_judge` execution, without lending the credentials.

`ledger.py` counts, `session.py` is the permission (no HTTP), `app.py` is its routes and checks (no sockets),
`proxy.py` is the server of one script. HTTP itself is in `agentv.http`.
"""
