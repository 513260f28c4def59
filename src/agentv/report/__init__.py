"""Turn result rows into reports: summary, live progress, comparison, Markdown, JUnit and GitHub annotations."""
