"""What the tests of files share: refusals in one line, and from file to file."""

import re

import pytest

from sparsebayes._signal_files import check_output, open_signal, write_signal


def refused(path, *words, **options):
    with pytest.raises(ValueError, match=re.escape(str(path))) as caught:
        open_signal(str(path), **options)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert str(word) in message
    return message


def through(path, output, change=0.0):
    """Write what was read with something added; gives the remarks."""
    signal = open_signal(str(path))
    check_output(signal, str(output))
    changed = {name: values + change for name, values in signal.channels.items()}
    return write_signal(signal, str(output), changed)
