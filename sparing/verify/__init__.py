"""Verdicts on responses: thinking split off first, then one file per kind of answer.

Kept free of imports: the worker processes go through this file, and are to start fast and stay small.
Use `sparing.verify.grader.Grader`.
"""
