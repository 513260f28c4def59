"""`RunPlan` -> rows: one case from top to bottom, and the scheduling of many."""
