"""Build a `RunPlan` from suites, targets and options. No model is called; unknown names are reported as errors."""
