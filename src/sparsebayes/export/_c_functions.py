"""The functions of an exported model that a user calls, in C."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sparsebayes.export._c_atoms import write_atoms
from sparsebayes.export._c_integrals import (
    write_mean_sigmoid,
    write_mean_softmax,
    write_softmax,
)
from sparsebayes.export._c_text import Source
from sparsebayes.export._plan import Constant, Plan

__all__ = ["write_functions"]


def write_functions(source: Source, plan: Plan) -> int:
    """Write tables and functions of a model.

    Parameters
    ----------
    source : Source
        What they are added to.
    plan : Plan
        The model.

    Returns
    -------
    int
        The most numbers that are on the stack at a time.
    """
    K = len(plan.spread)
    if plan.n_columns == 0:
        plan = _with_a_column(plan)
    n = _write_columns(source, plan)
    if plan.task == "regression":
        _write_variance(source, plan)
        _write_regression(source, plan)
        return n
    if K == 1:
        _write_variance(source, plan)
        _write_latent_mean(source, plan)
        if plan.task == "counts":
            _write_counts(source, plan)
        else:
            write_mean_sigmoid(source)
            _write_two_classes(source, plan)
        return n
    _write_latent_means(source, plan)
    _write_covariance(source, plan)
    write_softmax(source, K)
    stack = write_mean_softmax(source, K)
    _write_classes(source, plan)
    return n + K + K * K + stack


def _with_a_column(plan: Plan) -> Plan:
    """A model of the intercept alone with a constant atom of no weight: C has no empty tables."""
    one = np.zeros(1, dtype=np.intp)
    return replace(
        plan,
        parts=(Constant(one),),
        n_atoms=1,
        atom=one,
        latent=one,
        center=np.zeros(1),
        weight=np.zeros((1, plan.weight.shape[1])),
        root=np.zeros((1, 1)),
        fixed=np.zeros((len(plan.fixed), 1)),
    )


def _write_columns(source: Source, plan: Plan) -> int:
    """Write ``NAME_columns(x, v)``: the atoms, less their centers; numbers on the stack."""
    m = plan.n_columns
    kept = write_atoms(source, plan)
    center = ""
    if plan.center.any():
        table = source.table("center", plan.center, "Subtracted from the atoms: their means.")
        center = f"{table}[i]"
    if np.array_equal(plan.atom, np.arange(plan.n_atoms)):
        loop = f"    for (i = 0; i < {m}; i++) {{\n        v[i] -= {center};\n    }}\n"
        source.function(
            "static inline void @columns(const R *x, R *v)\n{\n"
            + ("    int i;\n    @atoms(x, v);\n" + loop if center else "    @atoms(x, v);\n")
            + "}"
        )
        return kept + m
    atom = source.indices("atom", plan.atom, "The atom of each column.")
    source.function(
        """
        static inline void @columns(const R *x, R *v)
        {
            R phi[@n@];
            int i;
            @atoms(x, phi);
            for (i = 0; i < @m@; i++) {
                v[i] = phi[@atom_[i]]@less@;
            }
        }
        """.replace("@atom_", atom),
        n=plan.n_atoms,
        m=m,
        less=f" - {center}" if center else "",
    )
    return kept + m + plan.n_atoms


def _packed(plan: Plan) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The columns of the root from the diagonal down, one after the other."""
    return np.concatenate([plan.root[i:, i] for i in range(plan.n_columns)])


def _start(plan: Plan) -> str:
    """First lines of a function that takes inputs x: the columns v at them."""
    return f"R v[{plan.n_columns}];\n@columns(x, v);"


def _write_variance(source: Source, plan: Plan) -> None:
    """Write ``NAME_variance(v)``: of the one function there is, without noise."""
    root = source.table("root", _packed(plan), "Root of the covariance of the weights, packed.")
    source.function(
        """
        static inline R @variance(const R *v)
        {
            const R *root = @root@;
            R variance = @spread@;
            int i, j;
            for (j = 0; j < @m@; j++) {
                R half = 0;
                for (i = j; i < @m@; i++) {
                    half += *root++ * v[i];
                }
                variance += half * half;
            }
            return variance;
        }
        """,
        root=root,
        spread=source.number(plan.spread[0, 0]),
        m=plan.n_columns,
    )


def _write_regression(source: Source, plan: Plan) -> None:
    scale = "" if plan.scale == 1.0 else f"{source.number(plan.scale)} * "
    source.function(
        """
        static inline void @mean(const R *v, R *mean)
        {
            int i, t;
            for (t = 0; t < @T@; t++) {
                R sum = 0;
                for (i = 0; i < @m@; i++) {
                    sum += @weight@[@T@ * i + t] * v[i];
                }
                mean[t] = @constant@[t] + @scale@sum;
            }
        }
        """,
        T=len(plan.constant),
        m=plan.n_columns,
        weight=source.table("weight", plan.weight, "Weights of the atoms, targets in a row."),
        constant=source.table("constant", plan.constant, "Intercepts of the targets."),
        scale=scale,
    )
    values = {"start": _start(plan), "scale": scale, "noise": source.number(plan.noise)}
    source.function(
        """
        /* Mean of the target, or of each of the targets. */
        static inline void @predict(const R *x, R *mean)
        {
            @start@
            @mean(v, mean);
        }

        /* Mean, and the standard deviation of a target, noise included: one for all targets. */
        static inline void @predict_std(const R *x, R *mean, R *std)
        {
            @start@
            @mean(v, mean);
            *std = @scale@sqrt(@variance(v) + @noise@);
        }

        /* Mean, and the standard deviation of the function without the noise. */
        static inline void @predict_function_std(const R *x, R *mean, R *std)
        {
            @start@
            @mean(v, mean);
            *std = @scale@sqrt(@variance(v));
        }
        """,
        **values,
    )


def _write_latent_mean(source: Source, plan: Plan) -> None:
    """Write ``NAME_mean(v)``: of the one latent function."""
    weight = source.table("weight", plan.weight, "Weights of the atoms.")
    source.function(
        """
        static inline R @mean(const R *v)
        {
            R sum = @constant@;
            int i;
            for (i = 0; i < @m@; i++) {
                sum += @weight@[i] * v[i];
            }
            return sum;
        }
        """,
        constant=source.number(plan.constant[0]),
        weight=weight,
        m=plan.n_columns,
    )


def _write_counts(source: Source, plan: Plan) -> None:
    source.function(
        """
        /* Mean of the counts at the most probable weights: the median of the rate. */
        static inline void @predict(const R *x, R *mean)
        {
            @start@
            *mean = exp(@mean(v));
        }

        /* The same, and the standard deviation of the counts, averaged over the weights. */
        static inline void @predict_std(const R *x, R *mean, R *std)
        {
            @start@
            const R f = @mean(v);
            const R s2 = @variance(v);
            const R excess = s2 > 40 ? s2 : log(expm1(s2));
            *mean = exp(f);
            *std = hypot(exp((f + s2 / 2) / 2), exp(f + (s2 + excess) / 2));
        }

        /* Mean of the counts, averaged over the weights. */
        static inline void @predict_mean(const R *x, R *mean)
        {
            @start@
            *mean = exp(@mean(v) + @variance(v) / 2);
        }
        """,
        start=_start(plan),
    )


def _write_two_classes(source: Source, plan: Plan) -> None:
    source.function(
        """
        /* The most probable class, 0 or 1; -1 where an input is no number. */
        static inline int @predict(const R *x)
        {
            @start@
            const R f = @mean(v);
            return f > 0 ? 1 : f <= 0 ? 0 : -1;
        }

        /* Probabilities of the classes, averaged over the posterior of the weights. */
        static inline void @predict_proba(const R *x, R *proba)
        {
            @start@
            const R f = @mean(v);
            const R p = @mean_sigmoid(f, @variance(v));
            proba[0] = f < 0 ? 1 - p : p;
            proba[1] = f < 0 ? p : 1 - p;
        }

        /* The same at the most probable weights: faster, and more extreme. */
        static inline void @predict_proba_plug_in(const R *x, R *proba)
        {
            @start@
            const R f = @mean(v);
            const R e = exp(-fabs(f));
            const R p = e / (1 + e);
            proba[0] = f < 0 ? 1 - p : p;
            proba[1] = f < 0 ? p : 1 - p;
        }
        """,
        start=_start(plan),
    )


def _write_latent_means(source: Source, plan: Plan) -> None:
    """Write ``NAME_means(v, mean)``: of the latent functions of several classes."""
    K = len(plan.constant)
    ends = np.searchsorted(plan.latent, np.arange(K), side="right")
    source.function(
        """
        static inline void @means(const R *v, R *mean)
        {
            int i = 0, k;
            for (k = 0; k < @K@; k++) {
                mean[k] = @constant@[k];
                for (; i < @ends@[k]; i++) {
                    mean[k] += @weight@[i] * v[i];
                }
            }
        }
        """,
        K=K,
        constant=source.table("constant", plan.constant, "Intercepts of the latent functions."),
        ends=source.indices("ends", ends, "Where the columns of each class end."),
        weight=source.table("weight", plan.weight, "Weights of the columns."),
    )


def _write_covariance(source: Source, plan: Plan) -> None:
    """Write ``NAME_covariance(v, cov)``: of the latent functions, K x K."""
    K, m = len(plan.constant), plan.n_columns
    source.table("spread", plan.spread, "Covariance of the intercepts.")
    source.table("root", _packed(plan), "Root of the covariance of the weights, packed.")
    fixed = "0"
    if plan.fixed.any():
        source.table("fixed", plan.fixed, "What columns add to the other latent functions.")
        fixed = f"@fixed[{m} * k + j]"
    source.function(
        """
        static inline void @covariance(const R *v, R *cov)
        {
            const R *root = @root;
            R half[@K@];
            int i, j, k, l;
            for (k = 0; k < @K@ * @K@; k++) {
                cov[k] = @spread[k];
            }
            for (j = 0; j < @m@; j++) {
                i = j;
                for (k = 0; k < @K@; k++) {
                    half[k] = @from@;
                    for (; i < @ends[k]; i++) {
                        half[k] += *root++ * v[i];
                    }
                }
                for (k = 0; k < @K@; k++) {
                    for (l = 0; l < @K@; l++) {
                        cov[@K@ * k + l] += half[k] * half[l];
                    }
                }
            }
        }
        """.replace("@from@", fixed),
        K=K,
        m=m,
    )


def _write_classes(source: Source, plan: Plan) -> None:
    source.function(
        """
        /* Probabilities of the classes, averaged over the posterior of the weights. */
        static inline void @predict_proba(const R *x, R *proba)
        {
            R mean[@K@], cov[@K@ * @K@];
            @start@
            @means(v, mean);
            @covariance(v, cov);
            @mean_softmax(mean, cov, proba);
        }

        /* The same at the most probable weights: much faster, and more extreme. */
        static inline void @predict_proba_plug_in(const R *x, R *proba)
        {
            R mean[@K@];
            @start@
            @means(v, mean);
            @softmax(mean, proba);
        }

        /* The most probable class, counted from 0; -1 where an input is no number. */
        static inline int @predict(const R *x)
        {
            R proba[@K@];
            int k, best = 0;
            @predict_proba(x, proba);
            for (k = 1; k < @K@; k++) {
                best = proba[k] > proba[best] ? k : best;
            }
            return proba[best] >= 0 ? best : -1;
        }
        """,
        K=len(plan.constant),
        start=_start(plan),
    )
