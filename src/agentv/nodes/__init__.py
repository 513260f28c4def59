"""Nodes: other machines that run judge scripts and commands.

`trees.py` reads the files of a suite on the driver, and `tree_store.py` keeps copies of them on a node.
"""
