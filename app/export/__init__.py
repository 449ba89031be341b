"""A tree in forms that work without livetree: JSON, SQL, Python and ONNX.

All are written from one document, which a service or a checkpoint gives.
"""
