"""What people read: records in, charts, tables and one self-contained HTML page out.

One module per package of results has ``view(result)``, its sentences, tables and charts. The drawing library loads
when a page is first written, so that commands that write none stay quick.
"""
