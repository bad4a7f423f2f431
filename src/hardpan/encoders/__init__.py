"""Texts and images as vectors."""
