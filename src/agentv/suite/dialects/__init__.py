"""Suites written for AgentV (npm) 2.5 to 5: recognised (`detect`) and turned into our form before they are validated.

`tables` has the names of both sides, `reading` the pass over one suite, and `assertions` that over lists of evaluators.
"""
