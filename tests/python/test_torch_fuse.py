"""adjoint.torch.fuse: values and gradients compared with the model's own, separate layers, and unfused ones.

The tests need PyTorch, and the shared library in ADJOINT_LIBRARY.
"""

import copy
import itertools
import pickle
import unittest
from unittest import mock

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest(f"needs PyTorch: {error}")

import torch.fx
from torch import nn
from torch.autograd import forward_ad

import adjoint.torch as adj
from adjoint.torch.fusion import FusedSequential
from test_torch import computed

KINDS = ("Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")
ACTIVATIONS = (nn.ReLU(), nn.LeakyReLU(0.3), nn.LeakyReLU(-0.5), nn.Tanh(), nn.Sigmoid(), nn.SiLU())


def layer(kind, **options):
    torch.manual_seed(0)
    return getattr(nn, kind)(4, 6, 3, stride=2, padding=1, groups=2, **options).double()


def input_of(kind):
    torch.manual_seed(1)
    return torch.randn(2, 4, *(9, 8, 5)[: int(kind[-2])], dtype=torch.float64, requires_grad=True)


def norm_of(kind, **options):
    norm = getattr(nn, f"BatchNorm{kind[-2:]}")(6, **options).double()
    torch.manual_seed(2)
    for tensor in (*norm.parameters(), *filter(torch.is_floating_point, norm.buffers())):
        nn.init.uniform_(tensor, 0.5, 1.5)
    return norm


def fused(model):
    copied = copy.deepcopy(model)
    adj.replace(copied)
    return copied, adj.fuse(copied)


def calls_of(function):
    """Returns the call's result, and the library's functions that it called."""
    with computed() as calls:
        result = function()
    return result, calls


class FuseTest(unittest.TestCase):
    def assert_close(self, mine, reference, size=1.0):
        torch.testing.assert_close(mine, reference, rtol=1e-11, atol=1e-12 * size)

    def assert_same(self, mine, reference, x):
        """Compares values, first gradients, and the gradients of their squares."""
        results = []
        for model in (mine, reference):
            y = model(x)
            wanted = [x, *model.parameters()]
            first = torch.autograd.grad(y.square().sum(), wanted, create_graph=True)
            second = torch.autograd.grad(sum(g.square().sum() for g in first), wanted)
            results.append(([y], first, second))
        # A bias before a batch norm has gradients of 0, so their rounding is compared with the other gradients.
        for mine, reference in zip(*results):
            size = max(1.0, *(tensor.abs().max().item() for tensor in reference))
            for a, b in zip(mine, reference):
                self.assert_close(a, b, size)

    def test_activations(self):
        for kind in KINDS:
            for activation in ACTIVATIONS:
                with self.subTest(kind=kind, activation=activation):
                    model, x = nn.Sequential(layer(kind), activation), input_of(kind)
                    mine, report = fused(model)
                    self.assertEqual(report.replaced, {"": f"0 {kind} + 1 {type(activation).__name__}"})
                    self.assert_same(mine, model, x)
                    with torch.no_grad():
                        y, calls = calls_of(lambda: mine(x))
                    self.assert_close(y, model(x))
                    self.assertEqual([call.endswith("_activated") for call in calls], [True])

    def test_gradients_need_no_second_forward(self):
        for kind in KINDS:
            for activation in ACTIVATIONS:
                mine, _ = fused(nn.Sequential(layer(kind), activation))
                y, calls = calls_of(lambda: mine(input_of(kind)))
                follows = not isinstance(activation, nn.SiLU) and getattr(activation, "negative_slope", 0) >= 0
                with self.subTest(kind=kind, activation=activation):
                    self.assertEqual([call.endswith("_activated") for call in calls], [follows])
                    self.assertEqual(len(calls_of(y.sum().backward)[1]), 2)

    def test_forward_mode(self):
        for kind, activation in itertools.product(KINDS, ACTIVATIONS):
            model, x = nn.Sequential(layer(kind), activation), input_of(kind).detach()
            results = []
            for m in (fused(model)[0], model):
                with forward_ad.dual_level():
                    results.append(forward_ad.unpack_dual(m(forward_ad.make_dual(x, x.cos()))))
            with self.subTest(kind=kind, activation=activation):
                self.assert_close(results[0].primal, results[1].primal)
                self.assert_close(results[0].tangent, results[1].tangent)

    def test_registered_operators(self):
        for kind, (constant, activation) in itertools.product(KINDS, enumerate(ACTIVATIONS)):
            conv = layer(kind)
            rank, transposed = len(conv.kernel_size), conv.transposed
            operator = torch.ops.adjoint.conv_transpose if transposed else torch.ops.adjoint.conv
            steps = [[2] * rank, [1] * rank, [1] * rank, 2] + ([[0] * rank] if transposed else [])
            constant = {0: 1, 1: 2}.get(constant, constant)  # ReLU 1, LeakyReLU twice 2, Tanh 3 and so on
            x = input_of(kind)
            wanted = [x, conv.weight, conv.bias]
            results = []
            for y in (
                operator(*wanted, *steps, constant, getattr(activation, "negative_slope", 0.0)),
                activation(conv(x)),
            ):
                first = torch.autograd.grad(y.square().sum(), wanted, create_graph=True)
                results.append([y, *first, *torch.autograd.grad(sum(g.square().sum() for g in first), wanted)])
            with self.subTest(kind=kind, activation=activation):
                for mine, reference in zip(*results):
                    self.assert_close(mine, reference, max(1.0, reference.abs().max().item()))
        with self.assertRaisesRegex((ValueError, RuntimeError), "activation must be 0 or a constant"):
            torch.ops.adjoint.conv(x[..., 0], conv.weight[..., 0], None, [1], [0], [1], 1, 9)

    def test_batch_norm_is_folded_where_it_evaluates(self):
        for kind in KINDS:
            for bias, affine in ((True, True), (False, True), (True, False)):
                with self.subTest(kind=kind, bias=bias, affine=affine):
                    model = nn.Sequential(layer(kind, bias=bias), norm_of(kind, affine=affine), nn.ReLU())
                    mine, _ = fused(model)
                    x = input_of(kind)
                    self.assert_same(mine.train(), model.train(), x)
                    self.assert_close(mine[1].running_var, model[1].running_var)
                    self.assert_same(mine.eval(), model.eval(), x)
                    with torch.no_grad(), mock.patch.object(nn.BatchNorm1d, "forward") as one, mock.patch.object(
                        nn.BatchNorm2d, "forward"
                    ) as two:
                        self.assert_close(mine(x), mine(x))
                        one.assert_not_called()
                        two.assert_not_called()

    def test_folded_filters_follow_their_tensors(self):
        model = nn.Sequential(layer("Conv2d"), norm_of("Conv2d")).eval()
        mine, _ = fused(model)
        x = input_of("Conv2d").detach()
        changes = (
            lambda m: m[0].weight.mul_(2.0),
            lambda m: m[1].running_mean.add_(1.0),
            lambda m: setattr(m[1], "bias", nn.Parameter(torch.ones(6, dtype=torch.float64))),
            lambda m: m.load_state_dict({key: value * 2 for key, value in m.state_dict().items()}),
            lambda m: (m[0].weight.data.mul_(3.0), m.eval()),
            lambda m: setattr(m[0].weight, "data", m[0].weight * 2),
            lambda m: nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(m.parameters()) * 3, m.parameters()),
        )
        with torch.no_grad():
            for change in changes:
                self.assert_close(mine(x), model(x))
                change(mine)
                change(model)
                self.assert_close(mine(x), model(x))
            before = mine(x)
            with mock.patch("adjoint.torch.fusion._fold") as fold:
                self.assertTrue(torch.equal(mine(x), before))
                fold.assert_not_called()
            copied = pickle.loads(pickle.dumps(mine))
            self.assertNotIn("_folds", vars(copied))
            self.assertTrue(torch.equal(copied(x), before))
            # A tensor assigned later may get the address of the first one.
            for _ in range(20):
                for changed, factor in itertools.product((mine, model), (2.0, 0.4)):
                    changed[0].weight.data = changed[0].weight * factor
                self.assert_close(mine(x), model(x))
        with torch.inference_mode():
            self.assert_close(mine(x), model(x))

    def test_weight_norm_stays(self):
        def parametrised():
            return nn.Sequential(nn.utils.weight_norm(layer("ConvTranspose1d")), nn.LeakyReLU(0.1))

        mine, model = parametrised(), parametrised()
        adj.replace(mine)
        adj.fuse(mine)
        x = input_of("ConvTranspose1d")
        self.assert_same(mine, model, x)
        with torch.no_grad():
            mine[0].weight_g.mul_(2.0)
            y, calls = calls_of(lambda: mine(x))
            model[0].weight_g.mul_(2.0)
        self.assert_close(y, model(x))
        self.assertEqual(calls[-1], "adjoint_conv_transpose_activated")

    def test_hooks_see_what_stands_between(self):
        for at in (0, 1, 2):
            model = nn.Sequential(layer("Conv2d"), norm_of("Conv2d"), nn.ReLU()).eval()
            mine, _ = fused(model)
            seen = []
            handle = mine[at].register_forward_hook(lambda module, arguments, output: seen.append(output))
            x = input_of("Conv2d")
            self.assert_close(mine(x), model(x))
            self.assert_close(seen[0], model[: at + 1](x))
            handle.remove()
            self.assert_close(mine(x), model(x))
            self.assertEqual(len(seen), 1)

    def test_subclasses_and_restore(self):
        class Block(nn.Sequential):
            pass

        class Doubled(nn.Sequential):
            def forward(self, x):
                return 2 * super().forward(x)

        kinds = (Block, Doubled, nn.Sequential)
        model = nn.ModuleList([kind(layer("Conv2d"), nn.ReLU()) for kind in kinds])
        adj.replace(model[:2])
        report = adj.fuse(model)
        self.assertEqual(list(report.replaced), ["0"])
        self.assertEqual(report.left["1"], "a Doubled has a forward of its own")
        self.assertEqual(report.left["2"], "its 0 is a Conv2d that is not Adjoint's")
        self.assertIsInstance(model[0], Block)
        self.assertIsInstance(model[0], FusedSequential)
        self.assertEqual(adj.fuse(model).replaced, {})
        adj.restore(model)
        self.assertEqual([type(m) for m in model], list(kinds))
        self.assertIs(type(model[0][0]), nn.Conv2d)

    def test_what_stands_apart(self):
        model = nn.Sequential(layer("Conv2d"), nn.GELU(), nn.BatchNorm2d(6).double(), nn.ReLU())
        mine, report = fused(model)
        self.assertEqual((report.replaced, report.left), ({}, {}))
        self.assertIs(type(mine), nn.Sequential)

    def test_forwards_that_modules_have_themselves(self):
        model = nn.Sequential(layer("Conv2d"), norm_of("Conv2d"), nn.ReLU()).eval()
        x = input_of("Conv2d")
        for part in range(3):
            mine, _ = fused(model)
            forward = mine[part].forward
            mine[part].forward = lambda input, forward=forward: forward(input) + 1  # as libraries for hooks do
            self.assert_close(mine(x), model[part + 1 :](model[: part + 1](x) + 1))

    def test_compilers_see_forwards_that_modules_have_themselves(self):
        model = nn.Sequential(layer("Conv2d"), nn.ReLU())
        x = input_of("Conv2d")
        for part in range(2):
            mine, _ = fused(model)
            forward = mine[part].forward
            mine[part].forward = lambda input, forward=forward: forward(input) + 1
            with mock.patch("adjoint.torch.fusion.is_compiling", return_value=True):
                self.assert_close(mine(x), model[part + 1 :](model[: part + 1](x) + 1))

    def test_pairs_with_a_forward_of_their_own_are_left(self):
        for part in range(2):
            model = nn.Sequential(layer("Conv2d"), nn.ReLU())
            adj.replace(model)
            model[part].forward = lambda input: input + 1
            report = adj.fuse(model)
            self.assertEqual(report.left, {"": f"the forward of its {part} was replaced on the module itself"})
            self.assertEqual((report.replaced, type(model)), ({}, nn.Sequential))
        model = nn.Sequential(layer("Conv2d"), nn.ReLU(), nn.Conv2d(6, 4, 1).double(), nn.Tanh())
        adj.replace(model)
        model[1].forward = lambda input: input + 1
        report = adj.fuse(model)
        self.assertEqual(report.replaced, {"": "2 Conv2d + 3 Tanh"})
        self.assertEqual(report.left, {"": "the forward of its 1 was replaced on the module itself"})

    def test_another_epsilon(self):
        model = nn.Sequential(layer("Conv2d"), norm_of("Conv2d")).eval()
        mine, _ = fused(model)
        x = input_of("Conv2d")
        with torch.no_grad():
            mine(x)
            mine[1].eps = model[1].eps = 0.5
            self.assert_close(mine(x), model(x))

    def test_a_norm_reads_unbatched_input_as_before(self):
        model = nn.Sequential(nn.Conv1d(4, 6, 3).double(), norm_of("Conv1d")).eval()
        mine, _ = fused(model)
        x = torch.randn(4, 8, dtype=torch.float64)  # the norm takes 6 channels of 6 positions for a batch
        self.assert_close(mine(x), model(x))

    def test_fx_graphs_follow_their_tensors(self):
        model = nn.Sequential(layer("Conv2d"), norm_of("Conv2d"), nn.ReLU()).eval()
        mine, _ = fused(model)
        graph = torch.fx.symbolic_trace(mine)
        with torch.no_grad():
            for layers in (mine, model):
                layers[0].weight.mul_(2)
                layers[1].running_var.mul_(2)
        x = input_of("Conv2d")
        self.assert_close(graph(x), model(x))

    def test_a_slope_that_is_no_number(self):
        mine, _ = fused(nn.Sequential(layer("Conv1d"), nn.LeakyReLU(float("nan"))))
        x = input_of("Conv1d")
        self.assertEqual(torch.autograd.grad(mine(x).sum(), x)[0].shape, x.shape)

    def test_a_norm_that_does_not_fit_fails_as_before(self):
        model = nn.Sequential(layer("Conv2d"), nn.BatchNorm2d(5).double(), nn.ReLU()).eval()
        mine, _ = fused(model)
        with self.assertRaises(RuntimeError):
            mine(input_of("Conv2d"))

    def test_bfloat16_and_autocast(self):
        model = nn.Sequential(layer("Conv2d"), norm_of("Conv2d"), nn.Tanh()).float().eval()
        mine, _ = fused(model)
        x = input_of("Conv2d").detach().float()
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            y = mine(x)
        self.assertEqual(y.dtype, torch.bfloat16)
        torch.testing.assert_close(y.float(), model(x), rtol=0, atol=0.05)

    def test_traced(self):
        model = nn.Sequential(layer("Conv2d"), norm_of("Conv2d"), nn.Tanh()).eval()
        mine, _ = fused(model)
        x = input_of("Conv2d").detach()
        self.assert_close(torch.jit.trace(mine, x)(x), model(x))
        mine, _ = fused(model[::2])
        traced = torch.jit.trace(mine, x)
        self.assertNotIn("aten::tanh", str(traced.inlined_graph))
        self.assert_close(traced(2 * x), model[::2](2 * x))


if __name__ == "__main__":
    unittest.main()
