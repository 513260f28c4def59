"""Convert files of other tools to suites and configurations. Unsupported parts are reported with their line."""
