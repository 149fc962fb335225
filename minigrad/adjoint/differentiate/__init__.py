"""The forward and the backward sweep in full: chain rule, derivatives of functions, saved values."""
