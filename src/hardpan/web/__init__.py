"""Pages in the browser: rebuilding a test set with people, and what any later page of hardpan needs.

::

    security.py   signed texts, sessions, limits, headers: knows nothing of the pages
    shell.py      templates, static files, error pages: what every small app shares
    requests.py   the JSON of a request and its checked values
    serving.py    a socket that says when it is taken, a server that stops gracefully
    annotation/   the app of ``hardpan replicate serve``: one module per page
    explorer/     the app of ``hardpan browse``: every example of an audit
    templates/    HTML (Jinja, escaped)
    static/       CSS and JavaScript as the browser reads them; no build step, nothing from elsewhere

A route parses, calls one function of :mod:`hardpan.replicate`, and renders. A new small app (an explorer of
predictions, say) is one more folder beside ``annotation``: it makes a :class:`shell.Shell`, lists its routes, and
wraps itself in :func:`security.protect`.
"""
