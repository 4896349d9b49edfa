"""What a broker can do, in values: it knows no header, no frame and no request code."""
