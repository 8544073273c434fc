"""Class probabilities averaged over the posterior, in C, by the rules of `latent_integrals`."""

from __future__ import annotations

import numpy as np

from sparsebayes.export._c_text import Source
from sparsebayes.latent_integrals import NEGLIGIBLE, TIE, logistic_rule, softmax_lattices

__all__ = ["write_mean_sigmoid", "write_mean_softmax", "write_softmax"]

# By precision: nodes of the wide rule, and for the narrow one the longest step in standard
# deviations, the longest in units of the latent function, and where it ends. Errors of
# probabilities are below 1e-10 and 1e-7.
_RULES = {False: (20, 0.6, 0.5625, 8.6), True: (10, 0.9, 1.1, 5.8)}
_WIDE = 4.0
_TIES = {False: TIE, True: 1e-5}
_NEGLIGIBLE = {False: NEGLIGIBLE, True: 1e-6}
_BLOCK = 32  # points whose probabilities are added before they join the others: rounding


def write_mean_sigmoid(source: Source) -> None:
    """Write ``NAME_mean_sigmoid(m, v)``: the mean of 1 / (1 + exp(-f)) for normal f.

    Parameters
    ----------
    source : Source
        What it is added to.
    """
    n, longest, resolution, reach = _RULES[source.single]
    nodes, weights = logistic_rule(n)
    half = slice(n // 2, n)
    source.table("nodes", nodes[half], "Nodes of quadrature for the logistic density.")
    source.table("node_weights", weights[half] / 2, "Half of their weights.")
    source.function(
        """
        /* Mean of 1 / (1 + exp(-f)) for normal f of mean m <= 0 and variance v: a sum over a grid
           or, where f is very uncertain, over the density that has this distribution function. */
        static inline R @sigmoid_below(R m, R v)
        {
            const R s = sqrt(v);
            R sum = 0;
            int k;
            if (s <= @wide@) {
                const R step = s > @narrow@ ? @resolution@ / s : @longest@;
                const int n = (int)(@reach@ / step) + 1;
                for (k = -n; k <= n; k++) {
                    const R z = step * (R)k;
                    const R e = exp(-fabs(m + v / 2 + s * z) / 2);
                    sum += exp(-z * z / 2) * e / (1 + e * e);
                }
                return @root@ * step * sum * exp(m / 2 + v / 8);
            }
            for (k = 0; k < @half@; k++) {
                const R x = @nodes[k];
                sum += @node_weights[k] * erfc((x - m) / (s * @root2@));
                sum += @node_weights[k] * erfc((-x - m) / (s * @root2@));
            }
            return sum;
        }
        """,
        wide=source.number(_WIDE),
        narrow=source.number(resolution / longest),
        resolution=source.number(resolution),
        longest=source.number(longest),
        reach=source.number(reach),
        half=n // 2,
        root=source.number(1.0 / np.sqrt(2 * np.pi)),
        root2=source.number(np.sqrt(2.0)),
    )
    # The order of what follows: p(m) = exp(m + v/2) p(-m - v) and p(m) = 1 - p(-m).
    source.function(
        """
        /* The smaller of the probabilities of two classes. */
        static inline R @mean_sigmoid(R m, R v)
        {
            R p;
            m = -fabs(m);
            if (m >= -v / 2) {
                p = @sigmoid_below(m, v);
            } else {
                p = @sigmoid_below(-fabs(m + v), v);
                p = exp(m + v / 2) * (m < -v ? 1 - p : p);
            }
            return p > 0.5 ? 0.5 : p;
        }
        """
    )


def write_softmax(source: Source, K: int) -> None:
    """Write ``NAME_softmax(f, proba)``.

    Parameters
    ----------
    source : Source
        What it is added to.
    K : int
        Number of classes.
    """
    source.function(
        """
        static inline void @softmax(const R *f, R *proba)
        {
            R highest = f[0], total = 0;
            int k;
            for (k = 1; k < @K@; k++) {
                highest = f[k] > highest ? f[k] : highest;
            }
            for (k = 0; k < @K@; k++) {
                proba[k] = exp(f[k] - highest);
                total += proba[k];
            }
            for (k = 0; k < @K@; k++) {
                proba[k] /= total;
            }
        }
        """,
        K=K,
    )


def write_mean_softmax(source: Source, K: int) -> int:
    """Write ``NAME_mean_softmax(mean, cov, proba)``: the mean of the softmax of normal values.

    Parameters
    ----------
    source : Source
        What it is added to.
    K : int
        Number of classes, at least three.

    Returns
    -------
    int
        Numbers that it keeps on the stack.
    """
    lattices = softmax_lattices(K)
    steps = np.concatenate([lattice.steps for _, lattice in lattices])
    source.indices("steps", steps, "Steps of lattices of points.")
    white = np.concatenate([lattice.whitening.ravel() for _, lattice in lattices])
    source.table("whitening", white, "What gives their points unit covariance.")
    (low, small), (high, middle), (_, large) = lattices
    _write_quantile(source)
    _write_root(source, K)
    source.function(
        """
        /* Mean of the softmax over normal latent values: over a lattice of points, twice as many
           as in the loop, because they are symmetric. cov is overwritten. */
        static inline void @mean_softmax(const R *mean, R *cov, R *proba)
        {
            R root[@K@ * @D@], turned[@K@ * @D@], shift[@K@], part[@K@], f[@K@], p[@K@], q[@D@];
            R total = 0;
            unsigned long i, j, points;
            const unsigned short *steps = @steps;
            const R *white = @whitening;
            int c, k, l, sign;
            const R largest = @root_of(mean, cov, root);
            points = @small@;
            if (largest > @low@) {
                const int level = largest > @high@ ? 2 : 1;
                points = level == 1 ? @middle@ : @large@;
                steps += level * @D@;
                white += level * @D@ * @D@;
            }
            for (c = 0; c < @K@; c++) {
                proba[c] = 0;
                for (l = 0; l < @D@; l++) {
                    R sum = 0;
                    for (k = 0; k < @D@; k++) {
                        sum += root[c * @D@ + k] * white[l * @D@ + k];
                    }
                    turned[c * @D@ + l] = sum;
                }
            }
            for (i = 0; i < points / 2; i += @block@) {
                for (c = 0; c < @K@; c++) {
                    part[c] = 0;
                }
                for (j = i; j < i + @block@; j++) {
                    for (l = 0; l < @D@; l++) {
                        const unsigned long u = (2 * j + 1) * steps[l] % (2 * points);
                        q[l] = @quantile((R)u / (R)(2 * points));
                    }
                    for (c = 0; c < @K@; c++) {
                        shift[c] = 0;
                        for (l = 0; l < @D@; l++) {
                            shift[c] += turned[c * @D@ + l] * q[l];
                        }
                    }
                    for (sign = -1; sign <= 1; sign += 2) {
                        for (c = 0; c < @K@; c++) {
                            f[c] = mean[c] + (R)sign * shift[c];
                        }
                        @softmax(f, p);
                        for (c = 0; c < @K@; c++) {
                            part[c] += p[c];
                        }
                    }
                }
                for (c = 0; c < @K@; c++) {
                    proba[c] += part[c];
                }
            }
            for (c = 0; c < @K@; c++) {
                total += proba[c];
            }
            for (c = 0; c < @K@; c++) {
                proba[c] /= total;
            }
        }
        """,
        K=K,
        D=K - 1,
        block=_BLOCK,
        low=source.number(low),
        high=source.number(high),
        small=len(small.points),
        middle=len(middle.points),
        large=len(large.points),
    )
    return 2 * K * (K - 1) + 5 * K


def _write_root(source: Source, K: int) -> None:
    source.function(
        """
        /* A root of the covariance of contrasts, largest directions first; their highest
           variance is returned. */
        static inline R @root_of(const R *mean, R *cov, R *root)
        {
            R largest = 0;
            int waiting[@K@];
            int i, j, k;
            for (i = 0; i < @K@; i++) { /* what all classes share has no effect */
                R row = 0;
                for (k = 0; k < @K@; k++) {
                    row += cov[k * @K@ + i];
                }
                for (k = 0; k < @K@; k++) {
                    cov[k * @K@ + i] -= row / @K@;
                }
                waiting[i] = 1;
            }
            for (i = 0; i < @K@; i++) {
                R row = 0;
                for (k = 0; k < @K@; k++) {
                    row += cov[i * @K@ + k];
                }
                for (k = 0; k < @K@; k++) {
                    cov[i * @K@ + k] -= row / @K@;
                }
                largest = cov[i * @K@ + i] > largest ? cov[i * @K@ + i] : largest;
            }
            for (j = 0; j < @D@; j++) {
                R most = 0, factor;
                int first = 1, pivot = 0;
                for (k = 0; k < @K@; k++) {
                    if (waiting[k] && (first || cov[k * @K@ + k] > most)) {
                        most = cov[k * @K@ + k];
                        first = 0;
                    }
                }
                first = 1;
                for (k = 0; k < @K@; k++) { /* of equal variances, and at last, the mean decides */
                    const int equal = j == @D@ - 1 || cov[k * @K@ + k] >= (1 - @tie@) * most;
                    if (waiting[k] && equal && (first || mean[k] > mean[pivot])) {
                        pivot = k;
                        first = 0;
                    }
                }
                waiting[pivot] = 0;
                most = cov[pivot * @K@ + pivot];
                factor = most > @negligible@ * largest ? 1 / sqrt(most) : 0;
                for (k = 0; k < @K@; k++) {
                    root[k * @D@ + j] = cov[k * @K@ + pivot] * factor;
                }
                for (i = 0; i < @K@; i++) {
                    for (k = 0; k < @K@; k++) {
                        const R gone = root[i * @D@ + j] * root[k * @D@ + j];
                        cov[i * @K@ + k] = i == pivot || k == pivot ? 0 : cov[i * @K@ + k] - gone;
                    }
                }
            }
            return largest;
        }
        """,
        K=K,
        D=K - 1,
        tie=source.number(_TIES[source.single]),
        negligible=source.number(_NEGLIGIBLE[source.single]),
    )


def _write_quantile(source: Source) -> None:
    """Quantiles of the normal, by Wichura's algorithm AS 241, for 1e-11 < u < 1 - 1e-11."""
    source.function(
        """
        /* Quantile of the standard normal: Wichura (1988), algorithm AS 241. */
        static inline R @quantile(R u)
        {
            const R d = u - 0.5;
            R r, value;
            if (fabs(d) <= 0.425) {
                r = 0.180625 - d * d;
                return d * (((((((2509.0809287301226727 * r + 33430.575583588128105) * r
                    + 67265.770927008700853) * r + 45921.953931549871457) * r
                    + 13731.693765509461125) * r + 1971.5909503065514427) * r
                    + 133.14166789178437745) * r + 3.3871328727963666080)
                    / (((((((5226.4952788528545610 * r + 28729.085735721942674) * r
                    + 39307.895800092710610) * r + 21213.794301586595867) * r
                    + 5394.1960214247511077) * r + 687.18700749205790830) * r
                    + 42.313330701600911252) * r + 1);
            }
            r = sqrt(-log(d < 0 ? u : 1 - u)) - 1.6;
            value = (((((((7.74545014278341407640e-4 * r + 2.27238449892691845833e-2) * r
                + 0.241780725177450611770) * r + 1.27045825245236838258) * r
                + 3.64784832476320460504) * r + 5.76949722146069140550) * r
                + 4.63033784615654529590) * r + 1.42343711074968357734)
                / (((((((1.05075007164441684324e-9 * r + 5.475938084995344946e-4) * r
                + 1.51986665636164571966e-2) * r + 0.148103976427480074590) * r
                + 0.689767334985100004550) * r + 1.67638483018380384940) * r
                + 2.05319162663775882187) * r + 1);
            return d < 0 ? -value : value;
        }
        """
    )
