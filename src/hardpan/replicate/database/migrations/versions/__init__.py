"""One module a migration; each names the one before it."""
