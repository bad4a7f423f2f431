"""What people read: one module per package of results, with ``view(result)``, its sentences, tables and charts."""
