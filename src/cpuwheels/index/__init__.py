"""The wheel index: static files in a folder or a bucket, published, checked and served."""
