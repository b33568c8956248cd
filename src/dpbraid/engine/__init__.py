"""Engines: they read a Mechanism and Rows and return the last iterate."""
