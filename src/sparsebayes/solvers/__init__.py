"""Algorithms: functions of a Problem that return a Solution."""
