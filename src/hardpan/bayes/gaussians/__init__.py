"""Bayes errors of Gaussian classes."""
