"""adjoint.torch.replace with only_where_faster: the timed calls, the kept module, and failures.

The tests need PyTorch, and the shared library in ADJOINT_LIBRARY.
"""

import copy
import itertools
import logging
import pickle
import unittest
from unittest import mock

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest(f"needs PyTorch: {error}")

from torch import nn
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

import adjoint.torch as adj
from adjoint.torch import trial
from test_torch_replace import KINDS, input_of, layer


class Weighed(nn.Conv1d):
    """A subclass that takes more than one operand."""

    def forward(self, input, scale, divisor):
        return super().forward(input) * scale / divisor


class Turned(nn.Conv1d):
    """A subclass that takes another order of axes."""

    def forward(self, input):
        return super().forward(input.transpose(1, 2)).transpose(1, 2)


class TrialTest(unittest.TestCase):
    def run_trial(self, adjoint, pytorch, call=lambda module: module(input_of(module)), kind="Conv1d"):
        """Returns a model of one layer after a call whose two ways took the given milliseconds, and the report."""
        module = layer(kind)
        report = adj.replace(module, only_where_faster=True)
        measured = trial.Trial((2, 4, 9), True, adjoint, pytorch)
        with mock.patch.object(trial, "_measure", return_value=measured):
            call(module)
        return module, report

    def test_the_quicker_is_kept(self):
        for kind in KINDS:
            module, report = self.run_trial(1.0, 2.0, kind=kind)
            self.assertIs(type(module), getattr(adj, kind))
            self.assertIn("adjoint is kept", str(report))
            module, report = self.run_trial(2.0, 1.0, kind=kind)
            self.assertIs(type(module), getattr(nn, kind))
            self.assertIn("pytorch is kept: forward and backward of (2, 4, 9) took 2 ms by adjoint, 1 ms", str(report))

    def test_there_is_one_trial(self):
        module, report = self.run_trial(1.0, 2.0)
        self.assertFalse(module._forward_hooks)
        with mock.patch.object(trial, "_measure") as measure:
            module(input_of(module))
        measure.assert_not_called()

    def test_it_says_so(self):
        with self.assertLogs("adjoint", logging.INFO) as logs:
            self.run_trial(2.0, 1.0)
        self.assertIn("pytorch is kept", logs.output[0])

    def test_measuring_changes_nothing(self):
        for kind in KINDS:
            for grad in (True, False):
                module = parametrizations.spectral_norm(layer(kind))
                reference = copy.deepcopy(module)
                x = input_of(module).requires_grad_()
                report = adj.replace(module, only_where_faster=True)
                random = torch.get_rng_state()
                with torch.set_grad_enabled(grad):
                    torch.testing.assert_close(module(x), reference(x))
                self.assertTrue(torch.equal(torch.get_rng_state(), random))
                for name, value in reference.state_dict().items():
                    torch.testing.assert_close(module.state_dict()[name], value, rtol=0, atol=0)
                self.assertIsNone(x.grad)
                self.assertTrue(all(p.grad is None for p in module.parameters()))
                measured = report.trials[""]
                self.assertEqual((measured.shape, measured.records), (tuple(x.shape), grad))
                self.assertTrue(measured.adjoint > 0 and measured.pytorch > 0)

    def test_measuring_is_not_checkpointed(self):
        module = layer("Conv1d")
        reference = copy.deepcopy(module)
        report = adj.replace(module, only_where_faster=True)
        gradients = []
        for computes in (module, reference):
            x = input_of(module).requires_grad_()
            checkpoint(computes, x, use_reentrant=False).square().sum().backward()
            gradients.append([x.grad, *(p.grad for p in computes.parameters())])
        self.assertEqual(len(report.trials), 1)
        torch.testing.assert_close(*gradients)

    def test_a_way_that_fails_is_not_tried_again(self):
        for failing, kept in (("theirs", "adjoint"), ("ours", "pytorch"), ("both", "adjoint")):
            module = layer("Conv1d")
            x = input_of(module)
            expected = module(x)
            report = adj.replace(module, only_where_faster=True)
            failures = {name: mock.Mock(side_effect=RuntimeError(f"{name} has no kernel\nfor it")) for name in ("ours", "theirs")}
            for name in failures if failing == "both" else (failing,):
                setattr(module, name, failures[name])
            module.function_of = lambda weight: adj.conv1d  # the user's own calls succeed
            torch.testing.assert_close(module(x), expected)
            with self.subTest(failing):
                self.assertFalse(module._forward_hooks)
                self.assertEqual(report.trials[""].kept, kept)
                self.assertIsInstance(module, adj.Conv1d if kept == "adjoint" else nn.Conv1d)
                self.assertIn(f"{kept} is kept: forward and backward of (2, 4, 9) fails: ", str(report))
                self.assertEqual(str(report).count("has no kernel"), 2 if failing == "both" else 1)
                self.assertNotIn("for it", str(report))

    def test_subclasses_that_take_something_else(self):
        for kind, arguments in ((Weighed, (1, 2)), (Turned, ())):
            torch.manual_seed(0)
            module = kind(4, 6, 3)
            x = torch.randn(2, 4, 9) if kind is Weighed else torch.randn(2, 9, 4)
            expected = module(x, *arguments)
            report = adj.replace(module, subclasses=(kind,), only_where_faster=True)
            for _ in range(2):
                torch.testing.assert_close(module(x, *arguments), expected)
            self.assertEqual(bool(report.trials[""].failure), kind is Turned)

    def test_half_precision_on_the_cpu_is_tried_once(self):
        # PyTorch 1.13 has no convolution of this dtype there.
        for kind, grad in itertools.product(KINDS, (True, False)):
            module = layer(kind).half()
            x = input_of(module).half()
            report = adj.replace(module, only_where_faster=True)
            with torch.set_grad_enabled(grad):
                y = module(x)
                measured = report.trials[""]
                self.assertFalse(module._forward_hooks)
                self.assertIsInstance(module, getattr(adj if measured.kept == "adjoint" else nn, kind))
                torch.testing.assert_close(module(x), y, rtol=2e-3, atol=2e-3)
                try:
                    getattr(nn, kind)(4, 6, 3).half()(x)
                except RuntimeError as error:
                    self.assertEqual((measured.kept, measured.pytorch), ("adjoint", float("inf")))
                    self.assertIn(f"fails: pytorch: {error}", str(report))

    def test_models_before_their_trial_are_copied_and_pickled(self):
        module = layer("Conv1d")
        adj.replace(module, only_where_faster=True)
        for copied in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
            copied(input_of(module))
            self.assertFalse(copied._forward_hooks)
        self.assertTrue(module._forward_hooks)


if __name__ == "__main__":
    unittest.main()
