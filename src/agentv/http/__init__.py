"""HTTP/1.1 for the whole project: `messages` reads requests strictly, `server` serves routes, `client` makes calls.

Parsing is llhttp's (the `httptools` package). What is accepted, how long it may take and how large it may be is ours.
"""
