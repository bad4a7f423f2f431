"""Exact nearest neighbours, structural similarity, near-duplicates."""
