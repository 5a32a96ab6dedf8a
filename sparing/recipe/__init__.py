"""Recipes: TOML to a checked `RunConfig`, and the problems and model it names."""
