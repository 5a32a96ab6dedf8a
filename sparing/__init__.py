"""Teach a reasoning model to think only as long as a problem needs."""
