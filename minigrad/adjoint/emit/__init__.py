"""The adjoint's `.cu` file and its table of decisions."""
