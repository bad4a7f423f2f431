"""The explorer: look through every example of an audit in a browser; filter, compare models, tag, relabel, export.

It answers on this machine only and reads one folder; the only files that it writes are ``corrections.csv`` and,
with a review of labels, ``review.csv`` in it.
"""

from hardpan.web.explorer.site import create_app

__all__ = ["create_app"]
