"""structmem: structured memory for AI agents."""
