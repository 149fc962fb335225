"""Passes that make an adjoint shorter and faster: dead code, loops, readable sums."""
