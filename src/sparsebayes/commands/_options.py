"""Kinds of values that options take. Nothing but the standard library is imported."""

from __future__ import annotations

import argparse
import math

RawText = argparse.RawDescriptionHelpFormatter


def variance(text: str) -> float | str:
    """Take the variance of a noise: a number, or ``mad``."""
    return text if text == "mad" else positive(text)


def count(text: str) -> int:
    """Take an integer above zero."""
    value = int(text) if text.isdecimal() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer above zero")
    return value


def seed(text: str) -> int:
    """Take the seed of a random generator."""
    value = int(text) if text.isdecimal() else -1
    if not 0 <= value < 2**32:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer from 0 to 2**32 - 1")
    return value


def positive(text: str) -> float:
    """Take a number above zero."""
    value = number_or_word(text)
    if not (isinstance(value, float) and 0 < value < math.inf):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above zero")
    return value


def fraction(text: str) -> float:
    """Take a number between zero and one."""
    value = number_or_word(text)
    if not (isinstance(value, float) and 0 < value < 1):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number between 0 and 1")
    return value


def number_or_word(text: str) -> float | str:
    """Take a number, or else the word as it is."""
    try:
        return float(text)
    except ValueError:
        return text


def numbers_or_word(text: str) -> float | list[float] | str:
    """Take a number, a list of numbers with commas, or else the word as it is."""
    if "," not in text:
        return number_or_word(text)
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers") from None
