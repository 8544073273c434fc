"""Table 1 of Schmolck & Everson 2007: the rows with wavelets, ten draws each."""

import numpy as np
import pytest

from sparsebayes import SparseBayesRegressor
from sparsebayes.datasets import bumps, doppler, sinc
from sparsebayes.dictionaries import Wavelet

# The periodized filters of WaveLab start 7 samples after those of PyWavelets.
PHASE = 7

# Signal, SNR, price; then mean and standard deviation as printed of the number of atoms, the
# error and the estimated noise variance. The noise of Doppler is given.
ROWS = [
    (bumps, 2, "aic", (36.3, 7.8), (0.088, 0.008), (0.121, 0.037)),
    (bumps, 2, "bic", (11.9, 2.5), (0.153, 0.034), (0.262, 0.038)),
    (bumps, 2, "ric", (2.6, 1.4), (0.320, 0.051), (0.450, 0.068)),
    (bumps, 7, "aic", (61.9, 6.0), (0.009, 0.001), (0.010, 0.004)),
    (bumps, 7, "bic", (19.2, 4.9), (0.081, 0.024), (0.106, 0.029)),
    (bumps, 7, "ric", (6.4, 1.3), (0.203, 0.024), (0.238, 0.018)),
    (sinc, 2, "aic", (28.9, 5.9), (0.012, 0.003), (0.020, 0.004)),
    (sinc, 2, "bic", (9.1, 1.9), (0.006, 0.002), (0.032, 0.003)),
    (sinc, 2, "ric", (6.2, 0.6), (0.006, 0.001), (0.036, 0.002)),
    (doppler, 7, "flat", (367.3, 10.5), (0.00067, 0.00002), None),
    (doppler, 7, "aic", (130.5, 6.9), (0.00041, 0.00002), None),
    (doppler, 7, "bic", (56.6, 2.8), (0.00026, 0.00002), None),
    (doppler, 7, "ric", (42.2, 1.5), (0.00036, 0.00002), None),
]


@pytest.mark.parametrize(
    ("make", "snr", "prior", "atoms", "error", "noise"),
    ROWS,
    ids=[f"{row[0].__name__}-{row[1]}-{row[2]}" for row in ROWS],
)
def test_wavelets_give_the_printed_figures(make, snr, prior, atoms, error, noise):
    found = []
    for seed in range(10):
        n = 1024 if make is doppler else 128
        data = make(n, snr=snr, exact_noise=True, random_state=seed)
        X = np.arange(n)[:, np.newaxis]
        model = SparseBayesRegressor(
            Wavelet("sym8"),
            fit_intercept=False,
            prior=prior,
            noise_variance=None if noise else data.noise_std**2,
        )
        model.fit(X, np.roll(data.y - data.y.mean(), PHASE))
        mean = np.roll(model.predict(X), -PHASE) + data.y.mean()
        mse = np.mean((mean - data.truth) ** 2)
        found.append((len(model.relevance_), mse, model.noise_variance_))
    decimals = (1, 5 if make is doppler else 3, 3)
    for k, printed in enumerate((atoms, error, noise)):
        if printed is not None:
            mean = round(np.mean(found, axis=0)[k], decimals[k])
            assert abs(mean - printed[0]) <= 2 * printed[1] + 1e-9
