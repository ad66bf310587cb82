"""adjoint.torch under PyTorch's own machinery: traces, fake and meta tensors, forward mode, torch.func, compilers.

The tests need PyTorch, and the shared library in ADJOINT_LIBRARY. Tests of features that the installed PyTorch lacks
are skipped.
"""

import contextlib
import functools
import io
import pathlib
import re
import unittest
import warnings

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest(f"needs PyTorch: {error}")

import torch.fx
from torch.autograd import forward_ad
from torch.nn import functional as F

import adjoint.torch as adj

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
# A transposed convolution whose output_padding is not below its stride has positions that no convolution returns.
CASES = [dict(stride=2, padding=1, dilation=2, groups=2), dict(), dict(stride=3, padding=2), dict(dilation=2, padding=1)]


def problems(device="cpu", dtype=torch.float64):
    """Yields (the function's name, input, weight, bias, attributes)."""
    torch.manual_seed(0)
    options = dict(device=device, dtype=dtype)
    for rank in (1, 2):
        for transposed in (False, True):
            for case in CASES:
                case = dict(case, **(dict(output_padding=1) if transposed and case else {}))
                groups = case.get("groups", 1)
                x = torch.randn(2, 4, *(9, 8)[:rank], **options)
                shape = (4, 6 // groups) if transposed else (6, 4 // groups)
                w, b = torch.randn(*shape, *(3, 2)[:rank], **options), torch.randn(6, **options)
                yield f"conv_transpose{rank}d" if transposed else f"conv{rank}d", x, w, b, case


def model():
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv1d(2, 6, 4, padding="same"), torch.nn.LeakyReLU(0.1), torch.nn.ConvTranspose1d(6, 4, 4, 2, 1),
        torch.nn.Tanh(), torch.nn.Conv1d(4, 2, 3, padding=1, padding_mode="reflect"),
    )
    return net


def both():
    """Returns a model in PyTorch, and its replaced copy."""
    theirs, ours = model(), model()
    adj.replace(ours)
    return theirs, ours


@contextlib.contextmanager
def quietly():
    """Suppresses the warnings of PyTorch's own machinery."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class TransformTest(unittest.TestCase):
    def assert_close(self, mine, reference):
        torch.testing.assert_close(mine, reference, rtol=1e-6 if mine.dtype == torch.float64 else 1e-4, atol=1e-5)

    def test_forward_mode(self):
        for device in DEVICES:
            for name, *tensors, case in problems(device):
                tangents = [torch.randn_like(t) for t in tensors]
                for grad_mode in (True, False):
                    for dual in ((0,), (1,), (2,), (0, 1, 2)):
                        results = []
                        for module in (adj, F):
                            with forward_ad.dual_level(), torch.set_grad_enabled(grad_mode):
                                inputs = [
                                    forward_ad.make_dual(t, tangents[i]) if i in dual else t for i, t in enumerate(tensors)
                                ]
                                results.append(forward_ad.unpack_dual(getattr(module, name)(*inputs, **case)))
                        with self.subTest(name=name, case=case, dual=dual, grad_mode=grad_mode):
                            self.assert_close(results[0].primal, results[1].primal)
                            self.assert_close(results[0].tangent, results[1].tangent)

    def test_gradcheck_in_forward_mode(self):
        for name, *tensors, case in problems():
            inputs = [t.requires_grad_() for t in tensors]
            with self.subTest(name=name, case=case):
                self.assertTrue(torch.autograd.gradcheck(
                    lambda *t: getattr(adj, name)(*t, **case), inputs, check_forward_ad=True, check_backward_ad=False,
                    fast_mode=True))

    def test_batches_of_gradients_and_tangents(self):
        def jacobian(function):  # one number after the other
            tangents = []
            for unit in torch.eye(3, dtype=torch.float64):
                with forward_ad.dual_level():
                    y = function(forward_ad.make_dual(torch.ones_like(unit), unit))
                    tangents.append(forward_ad.unpack_dual(y).tangent)
            return torch.stack(tangents, -1)

        for name, *tensors, case in problems():
            results = []
            scales = torch.ones(3, dtype=torch.float64)
            for module in (adj, F):
                function = functools.partial(getattr(module, name), **case)
                inputs = [t.detach().requires_grad_() for t in tensors]
                y = function(*inputs)
                seeds = torch.arange(2 * y.numel(), dtype=y.dtype).sin().reshape(2, *y.shape)
                with quietly():  # PyTorch loops over operators that have no rule
                    gradients = torch.autograd.grad(y, inputs, seeds, is_grads_batched=True)
                    def scaled(scales):
                        return function(*(t * s for t, s in zip(tensors, scales)))

                    tangents = jacobian(scaled) if module is F else torch.autograd.functional.jacobian(
                        scaled, scales, vectorize=True, strategy="forward-mode")
                results.append([*gradients, tangents])
            with self.subTest(name=name, case=case):
                for mine, reference in zip(*results):
                    self.assert_close(mine, reference)

    def test_batches_of_gradients_in_channels_last(self):
        for name, *tensors, case in problems():
            if name[-2] == "1":
                continue
            results = []
            for module in (adj, F):
                inputs = [t.detach().requires_grad_() for t in tensors]
                y = getattr(module, name)(*inputs, **case)
                n, c, h, w = y.shape
                seeds = torch.arange(2.0 * n * h * w * (c + 2), dtype=y.dtype).sin().reshape(2, n, h, w, c + 2)
                seeds = seeds.permute(0, 1, 4, 2, 3)
                for some in (seeds[:, :, 1:-1], seeds[:, :, :-2].permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3)):
                    with quietly():
                        results.append(torch.autograd.grad(y, inputs, some, is_grads_batched=True, retain_graph=True))
            with self.subTest(name=name, case=case):
                for mine, reference in zip(results[0] + results[1], results[2] + results[3]):
                    self.assert_close(mine, reference)

    def test_meta_tensors_have_shapes(self):
        for name, *tensors, case in problems():
            expected = getattr(F, name)(*tensors, **case)
            y = getattr(adj, name)(*(t.to("meta").requires_grad_() for t in tensors), **case)
            self.assertTrue(y.is_meta and y.requires_grad)
            self.assertEqual((y.shape, y.dtype, y.stride()), (expected.shape, expected.dtype, expected.stride()))
            y.sum().backward()

    def test_registered_operators_are_the_functions(self):
        for name, *tensors, case in problems():
            rank = int(name[-2])
            x, w, b = (t.requires_grad_() for t in tensors)
            attributes = [[case.get(key, default)] * rank for key, default in (("stride", 1), ("padding", 0), ("dilation", 1))]
            attributes.append(case.get("groups", 1))
            if "transpose" in name:
                attributes.append([case.get("output_padding", 0)] * rank)
            registered = torch.ops.adjoint.conv_transpose if "transpose" in name else torch.ops.adjoint.conv
            results = []
            for y in (registered(x, w, b, *attributes), getattr(F, name)(x, w, b, **case)):
                first = torch.autograd.grad(y.square().sum(), (x, w, b), create_graph=True)
                second = torch.autograd.grad(sum(g.square().sum() for g in first), (x, w, b))
                results.append([y, *first, *second])
            for mine, reference in zip(*results):
                self.assert_close(mine, reference)

    def test_registered_operators_check(self):
        x, w, b = torch.ones(1, 2, 5), torch.ones(3, 2, 3), torch.ones(3)
        ops = torch.ops.adjoint
        for message, call in {
            "adjoint::conv: operands must have 3 to 5 axes": lambda: ops.conv(x[0], w, None, [1], [0], [1], 1),
            "adjoint::conv: input and weight must have 3 axes": lambda: ops.conv(x, w[0], None, [1], [0], [1], 1),
            "must share dtype and device": lambda: ops.conv(x, w.double(), None, [1], [0], [1], 1),
            "bias must have shape (3,)": lambda: ops.conv(x, w, b[:2], [1], [0], [1], 1),
            "bias must have input's dtype": lambda: ops.conv(x, w, b.double(), [1], [0], [1], 1),
            "stride must have one value": lambda: ops.conv(x, w, b, [1, 1], [0], [1], 1),
            "padding must have one value for each of 2 axes; got (0,)": (
                lambda: ops.conv(x[None], w[None], None, [1, 1], [0], [1, 1], 1)
            ),
            "kernel_size must have one value for each of 2 axes; got (3,)": (
                lambda: ops.conv_weight(x[None], x[None], [1, 1], [0, 0], [1, 1], 1, [3])
            ),
            "feature must have shape (1, 3, 3)": lambda: ops.conv_weight(x, torch.ones(1, 3, 4), [1], [0], [1], 1, [3]),
            "output_padding must be below": lambda: ops.conv_transpose(x, w[:2], None, [1], [0], [1], 1, [1]),
        }.items():
            with self.subTest(message), self.assertRaises((ValueError, RuntimeError)) as caught:
                call()
            self.assertIn(message, str(caught.exception))

    def test_registered_operators_heed_autocast(self):
        x, w, b = torch.randn(1, 2, 5), torch.randn(3, 2, 3, requires_grad=True), torch.randn(3)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = torch.ops.adjoint.conv(x, w, b, [1], [0], [1], 1)
            wide = torch.ops.adjoint.conv(x.double(), w.double(), None, [1], [0], [1], 1)
        self.assertEqual((y.dtype, wide.dtype), (torch.bfloat16, torch.float64))
        y.float().sum().backward()
        self.assertEqual(w.grad.dtype, torch.float32)

    def test_jit_traces_take_other_lengths(self):
        theirs, ours = both()
        ours = torch.nn.Sequential(*list(ours)[1:])
        theirs = torch.nn.Sequential(*list(theirs)[1:])
        with quietly():
            traced = torch.jit.trace(ours, (torch.randn(2, 6, 9),))
        for length in (9, 14):
            x = torch.randn(3, 6, length)
            self.assert_close(traced(x), theirs(x))
        self.assertIn("adjoint::conv_transpose", str(traced.inlined_graph))

    def test_fx_graphs_hold_the_functions(self):
        theirs, ours = both()
        graph = torch.fx.symbolic_trace(ours)
        targets = [node.target for node in graph.graph.nodes if node.op == "call_function"]
        self.assertIn(adj.conv1d, targets)
        self.assertIn(adj.conv_transpose1d, targets)
        x = torch.randn(2, 2, 11)
        self.assert_close(graph(x), theirs(x))

    def test_a_tracer_may_treat_the_layers_as_leaves(self):
        class Tracer(torch.fx.Tracer):
            def is_leaf_module(self, module, name):
                layers = (adj.Conv1d, adj.Conv2d, adj.Conv3d, adj.ConvTranspose1d, adj.ConvTranspose2d, adj.ConvTranspose3d)
                return isinstance(module, layers) or super().is_leaf_module(module, name)

        theirs, ours = both()
        traced = torch.fx.GraphModule(ours, Tracer().trace(ours))
        self.assertNotIn("call_function", [node.op for node in traced.graph.nodes])
        x = torch.randn(2, 2, 11)
        self.assert_close(traced(x), theirs(x))

    def test_tensor_subclasses(self):
        class Tagged(torch.Tensor):
            pass

        for name, x, w, b, case in problems():
            y = getattr(adj, name)(x.as_subclass(Tagged), w, b, **case)
            self.assertIsInstance(y, Tagged)
            self.assert_close(y.as_subclass(torch.Tensor), getattr(F, name)(x, w, b, **case))

    def test_checkpoint(self):
        from torch.utils.checkpoint import checkpoint

        theirs, ours = both()
        x = torch.randn(2, 2, 11, requires_grad=True)
        for reentrant in (True, False):
            results = []
            for module in (theirs, ours):
                y = checkpoint(module, x, use_reentrant=reentrant)
                y.square().sum().backward()
                results.append([x.grad.clone(), *(p.grad.clone() for p in module.parameters())])
                x.grad = None
                module.zero_grad()
            for mine, reference in zip(*results):
                self.assert_close(mine, reference)


class DocumentTest(unittest.TestCase):
    def test_the_page_to_copy_from_runs(self):
        page = pathlib.Path(__file__).resolve().parents[2] / "docs" / "python.md"
        blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)
        self.assertGreater(len(blocks), 3)
        names = {}
        for block in blocks:
            with contextlib.redirect_stdout(io.StringIO()), quietly():
                exec(compile(block, str(page), "exec"), names)
        self.addCleanup(adj.set_precision, "float32")


if __name__ == "__main__":
    unittest.main()
