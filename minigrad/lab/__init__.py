"""The laboratory: pictures, exercises, checks, benchmarks, tuning and the command line. No other room imports it."""
