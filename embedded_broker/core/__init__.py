"""Core services of a broker, in values: no header, no frame and no request code is known here."""
