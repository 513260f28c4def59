"""HTTP/1.1 for the whole project: a strict request parser (`messages`), routes and replies (`app`), a server with
deadlines (`server`), a client (`client`), and addresses and proxies (`urls`).

llhttp (the `httptools` package) parses. This package decides what is accepted, how long it may take and how large it
may be.
"""
