"""What a certificate promises."""

from argparse import Namespace

import pytest

from sparsebayes.commands._summary import Summary
from sparsebayes.problem import Certificate

GOOD = {"max_gain": 1e-7, "gradient_norm": 1e-4, "max_curvature": -0.1}


def test_it_holds_at_a_maximum():
    assert Certificate(**GOOD).holds(1e-6)


@pytest.mark.parametrize(
    "flaw", [{"max_gain": 2e-6}, {"gradient_norm": 2e-3}, {"max_curvature": 2e-3}]
)
def test_each_figure_can_break_it(flaw):
    assert not Certificate(**(GOOD | flaw)).holds(1e-6)


@pytest.mark.parametrize("name", GOOD)
def test_rounding_excuses_itself_and_no_more(name):
    rounding = 1e-2
    assert Certificate(**(GOOD | {name: 9e-3}), rounding=rounding).holds(1e-6)
    assert not Certificate(**(GOOD | {name: 2e-2}), rounding=rounding).holds(1e-6)


@pytest.mark.parametrize("name", GOOD)
def test_no_rounding_excuses_more_than_a_third_of_a_nat(name):
    assert Certificate(**(GOOD | {name: 0.2}), rounding=1.0).holds(1e-6)
    assert not Certificate(**(GOOD | {name: 0.4}), rounding=1.0).holds(1e-6)


def test_a_certificate_of_a_part_of_the_dictionary_says_so(capsys):
    whole, part = Certificate(**GOOD), Certificate(**GOOD, fraction=0.1)
    assert whole.fraction == 1
    assert part.holds(1e-6)  # what it says, it says of the atoms that were drawn
    assert "fraction=0.1" in repr(part)
    for certificate, said in (whole, False), (part, True):
        summary = Summary("a fit")
        summary.certificate(certificate, converged=True)
        summary.show(Namespace())
        out = capsys.readouterr().out
        assert ("of 0.1 of the dictionary, drawn at random" in out) == said
