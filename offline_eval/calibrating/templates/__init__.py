"""Templates of the calibration report; data, not code."""
