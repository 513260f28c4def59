"""HTTP/1.1 for the whole project: `messages` reads requests strictly, `app` has routes and replies, `server` the
connections and deadlines, `client` the calls, `urls` the addresses and proxies.

Parsing is llhttp's (the `httptools` package). What is accepted, how long it may take and how large it may be is ours.
"""
