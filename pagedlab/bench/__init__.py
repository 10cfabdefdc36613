"""Measurements. Each file is one benchmark, printed as a table or as JSON, with the machine it ran on."""
