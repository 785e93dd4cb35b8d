"""The peer's side of bench/compare.py: PyTorch 2.x on the CPU, in a virtual environment of its own."""
