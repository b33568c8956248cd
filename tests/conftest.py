"""Shared settings: hypothesis without deadlines (compilation takes its time)."""

from hypothesis import settings

settings.register_profile("dpbraid", deadline=None, print_blob=True)
settings.load_profile("dpbraid")
