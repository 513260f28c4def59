"""Public fakes for tests of suites, scripts and providers."""
