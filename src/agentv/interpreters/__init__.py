"""Other Python interpreters for judge scripts (`python:`): named ones, and environments that agentv installs once."""
