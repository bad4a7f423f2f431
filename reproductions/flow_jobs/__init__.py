"""The jobs of ``reproductions/flow_device.py``, a module each; all but ``packing`` need torch."""
