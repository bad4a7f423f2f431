"""Side-by-side measurements: ``python -m bench [TOPIC]``; how to write a topic is told in :mod:`bench.harness`."""
