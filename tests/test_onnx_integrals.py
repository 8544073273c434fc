"""Averages of sigmoid and softmax as ONNX operators, beside those of Python."""

import numpy as np
import onnxruntime
import pytest

from sparsebayes.export._onnx_graph import Graph
from sparsebayes.export._onnx_latent import mean_sigmoid, mean_softmax
from sparsebayes.latent_integrals import log_mean_sigmoid, log_mean_softmax


def run(graph, value, shapes, feeds):
    """Evaluate one value of a graph."""
    graph("Identity", value, name="p")
    inputs = [graph.input(name, shape) for name, shape in shapes.items()]
    model = graph.model("test", inputs, [graph.input("p", ["rows", None])], "", {}, "0")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, {name: feeds[name].astype(graph.dtype) for name in shapes})[0]


def sigmoid(mean, variance, precision="double"):
    graph = Graph(precision)
    shapes = {"mean": ["rows", 1], "variance": ["rows", 1]}
    feeds = {"mean": mean[:, None], "variance": variance[:, None]}
    return run(graph, mean_sigmoid(graph, "mean", "variance"), shapes, feeds)


def softmax(mean, covariance, precision="double"):
    graph, K = Graph(precision), mean.shape[1]
    shapes = {"mean": ["rows", K], "covariance": ["rows", K, K]}
    feeds = {"mean": mean, "covariance": covariance}
    return run(graph, mean_softmax(graph, "mean", "covariance", K), shapes, feeds)


class TestSigmoid:
    def test_of_every_mean_and_variance(self):
        std = np.concatenate([[0.0], np.logspace(-6, 8, 141), np.linspace(2.5, 4.5, 41)])
        means = np.concatenate([[0.0], np.logspace(-8, 3, 67)])
        mean, std = (grid.ravel() for grid in np.meshgrid(np.append(means, -means), std))
        found, expected = sigmoid(mean, std**2), np.exp(log_mean_sigmoid(mean, std**2))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)
        narrow = std < 5
        np.testing.assert_allclose(found[narrow], expected[narrow], rtol=1e-10, atol=1e-300)
        assert (found >= 0).all()

    def test_far_beyond(self):
        mean = np.array([1e300, -1e300, 1e300, -5.0, 0.0])
        variance = np.array([0.0, 1.0, 1e300, 1e300, 1e300])
        expected = np.exp(log_mean_sigmoid(mean, variance))
        np.testing.assert_allclose(sigmoid(mean, variance), expected, rtol=0, atol=1e-13)

    def test_in_single_precision(self):
        rng = np.random.default_rng(0)
        variance = np.append(10 ** rng.uniform(-4, 12, size=2000), 0.0)
        mean = rng.normal(size=2001) * 3 * np.sqrt(variance + 1)
        mean, variance = mean.astype(np.float32), variance.astype(np.float32)
        expected = np.exp(log_mean_sigmoid(mean.astype(float), variance.astype(float)))
        found = sigmoid(mean, variance, "single")
        np.testing.assert_allclose(found, expected, rtol=0, atol=3e-6)


class TestSoftmax:
    @pytest.mark.parametrize("K", [3, 4, 5, 6, 9])
    def test_of_every_size(self, K):
        rng = np.random.default_rng(K)
        n = 60
        root = rng.normal(size=(n, K, K)) * 10 ** rng.uniform(-3, 2, size=(n, 1, 1))
        root[: n // 4, :, 1:] = 0.0  # certain but for one direction
        root[n // 4] = 0.0
        mean = rng.normal(size=(n, K)) * 3
        covariance = root @ root.transpose(0, 2, 1)
        expected = np.exp(log_mean_softmax(mean, covariance))
        np.testing.assert_allclose(softmax(mean, covariance), expected, rtol=0, atol=1e-10)

    @pytest.mark.parametrize("K", [3, 4, 7])
    def test_where_variances_are_equal(self, K):
        """The mean decides in which order directions are taken, whatever rounding says."""
        rng = np.random.default_rng(K)
        mean = rng.normal(size=(40, K))
        size = 10 ** rng.uniform(-2, 2, size=(40, 1, 1))
        covariance = size * (np.eye(K) + 0.3) * (1 + 1e-13 * rng.normal(size=(40, K, K)))
        covariance = 0.5 * (covariance + covariance.transpose(0, 2, 1))
        expected = np.exp(log_mean_softmax(mean, covariance))
        np.testing.assert_allclose(softmax(mean, covariance), expected, rtol=0, atol=1e-10)

    def test_the_limits_between_rules(self):
        mean = np.tile([0.3, 0.0, -0.2], (4, 1))
        contrast = np.eye(3) - 1 / 3
        largest = np.array([0.099, 0.101, 1.99, 2.01])
        covariance = largest[:, None, None] * contrast / contrast[0, 0]
        expected = np.exp(log_mean_softmax(mean, covariance))
        np.testing.assert_allclose(softmax(mean, covariance), expected, rtol=0, atol=1e-12)
