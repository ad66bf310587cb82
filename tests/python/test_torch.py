"""adjoint.torch against torch.nn: results, gradients of both orders, modules, autocast.

The tests need PyTorch, and the shared library in ADJOINT_LIBRARY. They run on the CPU, and on a GPU if PyTorch sees
one.
"""

import contextlib
import ctypes
import itertools
import os
import threading
import unittest
import warnings
from unittest import mock

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest(f"needs PyTorch: {error}")

from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

import adjoint.torch as adj
from adjoint.library import Context
from adjoint.torch import native, operators
from adjoint.torch.problem import as_tuple

KINDS = ("Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")
DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
CASES_1D = [dict(zip(("stride", "padding", "output_padding", "groups", "dilation"), values)) for values in [
    (1, 0, 0, 1, 1), (2, 1, 1, 2, 1), (3, 2, 2, 1, 2), (2, 0, 0, 4, 3), (5, 1, 4, 1, 1), (1, 3, 2, 2, 3)]]
CASES_2D = CASES_1D + [dict(stride=(2, 3), padding=(1, 0), output_padding=(0, 2), groups=2, dilation=(2, 1))]
CASES_3D = [CASES_1D[0], CASES_1D[2], dict(stride=(2, 1, 3), padding=(1, 0, 2), output_padding=(1, 0, 2), groups=2,
                                           dilation=(1, 2, 1))]
CASES = (CASES_1D, CASES_2D, CASES_3D)
# (batch, extents, filter's extents, attributes): empty calls, one position, one tap, odd strides, and strides longer
# than the filter or the input.
EDGES = [
    (0, 5, 3, dict(stride=2, padding=1)), (0, 1, 1, dict(groups=2)), (1, 1, 1, dict()), (2, 1, 1, dict(stride=3)),
    (2, 1, 3, dict(padding=1, groups=4)), (1, 1, 4, dict(stride=7, padding=2, output_padding=5)),
    (3, 4, 1, dict(stride=5, output_padding=4)), (2, 6, 2, dict(stride=5, padding=1, groups=2)),
    (1, 3, 5, dict(stride=7, output_padding=3, dilation=2, padding=4)), (1, 3, 3, dict(stride=3, dilation=3, padding=3)),
]


def integers(*shape, dtype, device):
    return torch.randint(-4, 5, shape, device=device).to(dtype)


def conv_problems(device, dtype):
    """Yields (Adjoint's function, PyTorch's, input, weight, bias, attributes)."""
    for rank, cases in enumerate(CASES, 1):
        ours, theirs = getattr(adj, f"conv{rank}d"), getattr(torch.nn.functional, f"conv{rank}d")
        same = [dict(padding="same", groups=2, dilation=d) for d in (1, 2)] + [dict(padding="valid", stride=2)]
        for case in [{**case, "output_padding": 0} for case in cases] + same:
            case = {key: value for key, value in case.items() if key != "output_padding"}
            groups = case.get("groups", 1)
            x = integers(2, 4, *(13, 16, 6)[:rank], dtype=dtype, device=device)
            w = integers(4 if groups > 1 else 6, 4 // groups, *(3, 4, 2)[:rank], dtype=dtype, device=device)
            b = integers(w.shape[0], dtype=dtype, device=device)
            yield ours, theirs, x, w, b, case


def edge_problems(device, dtype):
    """Yields the same for EDGES, for all operators of one and two axes."""
    for (batch, extent, kernel, case), rank, kind in itertools.product(EDGES, (1, 2), ("conv", "conv_transpose")):
        name, groups = f"{kind}{rank}d", case.get("groups", 1)
        if kind == "conv":
            case = {key: value for key, value in case.items() if key != "output_padding"}
        x = integers(batch, 4, *(extent,) * rank, dtype=dtype, device=device)
        w = integers(4, 4 // groups, *(kernel,) * rank, dtype=dtype, device=device)
        yield getattr(adj, name), getattr(torch.nn.functional, name), x, w, integers(4, dtype=dtype, device=device), case


def problems(device, dtype):
    """Yields conv_problems(), the same for transposed convolutions, and edge_problems()."""
    torch.manual_seed(0)
    yield from conv_problems(device, dtype)
    yield from edge_problems(device, dtype)
    for rank, cases in enumerate(CASES, 1):
        ours, theirs = getattr(adj, f"conv_transpose{rank}d"), getattr(torch.nn.functional, f"conv_transpose{rank}d")
        for case in cases:
            x = integers(2, 4, *(7, 5, 3)[:rank], dtype=dtype, device=device)
            w = integers(4, 6 // case["groups"] if 6 % case["groups"] == 0 else 2, *(3, 4, 2)[:rank], dtype=dtype, device=device)
            b = integers(w.shape[1] * case["groups"], dtype=dtype, device=device)
            yield ours, theirs, x, w, b, case


def few_positions(function, x, w, case):
    """Returns a small part of one example, because numerical derivatives need two calls for each element. Neighbours
    still share all the taps that they can, and strides leave a rest."""
    extents = []
    for axis, taps in enumerate(w.shape[2:]):
        stride, dilation = (as_tuple(case.get(key, 1), w.dim() - 2, key)[axis] for key in ("stride", "dilation"))
        span = dilation * (taps - 1) + 1
        extents.append(1 - -span // stride if "transpose" in function.__name__ else span + stride + 1)
    return x[(slice(1), slice(None), *map(slice, extents))]


@contextlib.contextmanager
def computed():
    """Gives a list of the library's functions that the block calls, filled at its end. Activated calls are marked."""
    names = []
    if adj.backend() == "ctypes":
        with mock.patch.object(native, "run", wraps=native.run) as run:
            yield names
        names += [c.args[0] + ("_activated" if c.kwargs.get("activation") else "") for c in run.call_args_list]
        return

    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if str(function).startswith("adjoint."):
                order = [argument.name for argument in function._schema.arguments]
                activated = dict(zip(order, args)).get("activation")
                names.append("adjoint_" + str(function).split(".")[1] + ("_activated" if activated else ""))
            return function(*args, **(kwargs or {}))

    with Names():
        yield names


class FunctionTest(unittest.TestCase):
    def test_results_and_gradients_are_pytorchs(self):
        for device in DEVICES:
            for ours, theirs, x, w, b, case in problems(device, torch.float64):
                with self.subTest(device=device, case=case, shape=tuple(x.shape)):
                    results = []
                    for function in (ours, theirs):
                        inputs = [t.clone().requires_grad_() for t in (x, w, b)]
                        y = function(*inputs, **case)
                        seed = torch.arange(y.numel(), dtype=y.dtype, device=device).remainder(7).view_as(y) - 3
                        y.backward(seed)
                        results.append([y] + [t.grad for t in inputs])
                    for mine, reference in zip(*results):
                        torch.testing.assert_close(mine, reference, rtol=0, atol=0)

    def test_every_dtype(self):
        for device, dtype in itertools.product(DEVICES, (torch.float16, torch.bfloat16, torch.float32)):
            for ours, theirs, x, w, b, case in problems(device, dtype):
                with self.subTest(device=device, dtype=dtype, case=case):
                    y = ours(x, w, b, **case)
                    self.assertEqual(y.dtype, dtype)
                    exact = theirs(x.double(), w.double(), b.double(), **case).to(dtype)
                    torch.testing.assert_close(y, exact, rtol=0, atol=0)

    def test_gradcheck_of_both_orders(self):
        for device in DEVICES:
            for ours, _, x, w, b, case in problems(device, torch.float64):
                inputs = [t.detach().clone().requires_grad_() for t in (few_positions(ours, x, w, case), w, b)]
                fast = {"fast_mode": x.dim() == 5}  # random projections of the large Jacobians of volumes
                with self.subTest(device=device, case=case):
                    self.assertTrue(torch.autograd.gradcheck(lambda *t: ours(*t, **case), inputs, **fast))
                    self.assertTrue(torch.autograd.gradgradcheck(lambda *t: ours(*t, **case), inputs, **fast))

    def test_only_needed_gradients_are_computed(self):
        x, w = torch.randn(1, 2, 5), torch.randn(2, 3, 3)
        for needed, operator in ((x, "adjoint_conv"), (w, "adjoint_conv_weight")):
            y = adj.conv_transpose1d(*(t.clone().requires_grad_(t is needed) for t in (x, w)))
            with self.subTest(operator):
                with computed() as names:
                    y.sum().backward()
                self.assertEqual(names, [operator])

    @unittest.skipUnless(adj.backend() == "ctypes", "looks into calls by ctypes")
    def test_only_what_is_differentiated_is_recorded(self):
        tensors = torch.randn(1, 2, 5), torch.randn(2, 3, 3), torch.randn(3)
        leaves = [t.clone().requires_grad_() for t in tensors]
        expected = adj.conv_transpose1d(*tensors)
        with contextlib.ExitStack() as patches:
            applied = [
                patches.enter_context(mock.patch.object(operator, "apply", wraps=operator.apply))
                for operator in (operators.conv_transpose, operators.conv, operators.conv_weight)
            ]

            def counts():
                numbers = [operator.call_count for operator in applied]
                for operator in applied:
                    operator.reset_mock()
                return numbers

            self.assertFalse(adj.conv_transpose1d(*tensors).requires_grad)
            with torch.no_grad():
                self.assertFalse(adj.conv_transpose1d(*leaves).requires_grad)
            self.assertEqual(counts(), [0, 0, 0])
            for needed in range(3):
                y = adj.conv_transpose1d(*(leaves[i] if i == needed else tensors[i] for i in range(3)))
                self.assertTrue(y.requires_grad)
                torch.testing.assert_close(y.detach(), expected, rtol=0, atol=0)
                self.assertEqual(counts(), [1, 0, 0])
            y = adj.conv_transpose1d(*leaves)
            torch.autograd.grad(y.sum(), leaves, retain_graph=True)
            self.assertEqual(counts(), [1, 0, 0])
            torch.autograd.grad(y.square().sum(), leaves, create_graph=True)
            self.assertEqual(counts(), [0, 1, 1])

    def test_calls_in_turns_keep_apart(self):
        for device in DEVICES:
            x = integers(1, 4, 6, 6, dtype=torch.float64, device=device)
            w = integers(4, 2, 3, 3, dtype=torch.float64, device=device)
            cases = [(1,), (2,), ((2, 1),), ([2, 2], [1, 0]), (2, 1, (1, 0), 2), (1, 1, 0, 4, (2, 1))]
            for case, dtype in itertools.product(cases * 2, (torch.float64, torch.float32)):
                with self.subTest(device=device, case=case, dtype=dtype):
                    expected = torch.nn.functional.conv_transpose2d(x, w, None, *case)
                    y = adj.conv_transpose2d(x.to(dtype), w.to(dtype), None, *case)
                    torch.testing.assert_close(y, expected.to(dtype), rtol=0, atol=0)

    def test_a_list_may_change_between_calls(self):
        x, w, stride = torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2), [1, 1]
        self.assertEqual(adj.conv_transpose2d(x, w, stride=stride).shape, (1, 1, 4, 4))
        stride[0] = 3
        self.assertEqual(adj.conv_transpose2d(x, w, stride=stride).shape, (1, 1, 8, 4))

    def test_contexts_say_where_a_call_runs(self):
        every = itertools.product((0, 1), (0, 0xABCDEF012345), native.DTYPES, native.PRECISIONS)
        contexts = {fields: native.context(*fields).native for fields in every}
        for (device, stream, dtype, precision), made in contexts.items():
            self.assertEqual((made.device, made.stream or 0, made.dtype, made.precision),
                             (device, stream, native.DTYPES[dtype], native.PRECISIONS[precision]))

    @unittest.skipUnless(adj.backend() == "ctypes", "looks into calls by ctypes")
    def test_set_precision_holds_from_the_next_call_on(self):
        x, w = torch.randn(1, 2, 5), torch.randn(2, 3, 3, requires_grad=True)
        given = []

        def call(function, context, *rest):
            given.append(ctypes.cast(context, ctypes.POINTER(Context)).contents.precision)
            return library_call(function, context, *rest)

        library_call = native.library.call
        self.addCleanup(adj.set_precision, adj.get_precision())
        with mock.patch.object(native.library, "call", call):
            for precision in ("tf32", "float32", "tf32"):
                adj.set_precision(precision)
                y = adj.conv_transpose1d(x, w)
            adj.set_precision("float32")
            y.sum().backward()
        self.assertEqual(given, [1, 0, 1, 0])

    def test_threads_do_not_disturb_each_other(self):
        def work(size):
            x, w = torch.ones(1, 2, size, requires_grad=True), torch.ones(2, 3, 2)
            for step in range(200):
                y = adj.conv_transpose1d(x, w, stride=1 + step % 2)
                gradient, = torch.autograd.grad(y.sum(), x)
                right.append(y.shape[2] == (size - 1) * (1 + step % 2) + 2 and bool((gradient == 6).all()))

        right = []
        threads = [threading.Thread(target=work, args=(size,)) for size in (3, 5, 8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(right, [True] * 600)

    def test_calls_do_not_warn(self):
        for device in DEVICES:
            x, w = torch.randn(1, 2, 5, device=device), torch.randn(2, 3, 3, device=device, requires_grad=True)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                adj.conv_transpose1d(x, w).sum().backward()
                with torch.autocast(device, dtype=torch.bfloat16):
                    adj.conv_transpose1d(x, w)

    def test_autocast(self):
        for device in DEVICES:
            x, w = torch.randn(1, 2, 5, device=device), torch.randn(2, 3, 3, device=device, requires_grad=True)
            with torch.autocast(device, dtype=torch.bfloat16):
                y = adj.conv_transpose1d(x, w)
            self.assertEqual(y.dtype, torch.bfloat16)
            y.float().sum().backward()
            self.assertEqual(w.grad.dtype, torch.float32)

class ModuleTest(unittest.TestCase):
    def pairs(self):
        transposed = [dict(stride=2, padding=1), dict(stride=3, output_padding=2, groups=2), dict(dilation=2, bias=False)]
        conv = [dict(stride=2, padding=1), dict(padding="same", groups=2, dilation=2), dict(padding="valid", bias=False)]
        conv += [dict(padding=2, stride=2, padding_mode=mode) for mode in ("reflect", "replicate", "circular")]
        conv += [dict(padding="same", padding_mode="circular")]
        for kind in KINDS:
            for options in transposed if "Transpose" in kind else conv:
                torch.manual_seed(1)
                mine = getattr(adj, kind)(4, 6, 3, **options)
                torch.manual_seed(1)
                yield mine, getattr(torch.nn, kind)(4, 6, 3, **options)

    def test_same_initial_weights_and_state(self):
        for mine, reference in self.pairs():
            self.assertEqual(list(mine.state_dict()), list(reference.state_dict()))
            for name, value in reference.state_dict().items():
                self.assertTrue(torch.equal(mine.state_dict()[name], value))
            mine.load_state_dict(reference.state_dict())
            self.assertEqual(repr(mine), repr(reference))

    def test_forward_and_output_size(self):
        for mine, reference in self.pairs():
            rank = len(mine.kernel_size)
            x = torch.randn(2, 4, *(6, 5, 7)[:rank])
            torch.testing.assert_close(mine(x), reference(x))
            if mine.padding_mode != "circular":  # PyTorch pads only batches in this mode
                torch.testing.assert_close(mine(x[0]), reference(x[0]))
            if mine.transposed and reference.stride[0] > 1:
                size = [n + 1 for n in reference(x).shape[2:]] if reference.output_padding[0] == 0 else list(reference(x).shape[2:])
                torch.testing.assert_close(mine(x, output_size=size), reference(x, output_size=size))


class BackendTest(unittest.TestCase):
    def test_is_the_one_that_was_asked_for(self):
        self.assertEqual(adj.backend(), os.environ.get("ADJOINT_EXPECTED_BACKEND", adj.backend()))

    def test_has_the_same_operators(self):
        steps = "int[] stride, int[] padding, int[] dilation, int groups"
        activation = ", int activation=0, float parameter=0."
        for name, tensors, size in (
            ("conv", "Tensor image, Tensor filter, Tensor? bias", activation),
            ("conv_transpose", "Tensor feature, Tensor filter, Tensor? bias", ", SymInt[] output_padding" + activation),
            ("conv_weight", "Tensor image, Tensor feature", ", SymInt[] kernel_size"),
        ):
            schema = str(getattr(torch.ops.adjoint, name).default._schema)
            self.assertEqual(schema, f"adjoint::{name}({tensors}, {steps}{size}) -> Tensor")

    @unittest.skipUnless(adj.backend() == "extension", "needs the extension")
    def test_the_extension_records_what_is_differentiated(self):
        x, w, b = torch.randn(1, 2, 5), torch.randn(2, 3, 3), torch.randn(3)
        self.assertFalse(adj.conv_transpose1d(x, w, b).requires_grad)
        for needed in range(3):
            leaves = [t.clone().requires_grad_(i == needed) for i, t in enumerate((x, w, b))]
            with torch.no_grad():
                self.assertFalse(adj.conv_transpose1d(*leaves).requires_grad)
            with computed() as names:
                y = adj.conv_transpose1d(*leaves)
            self.assertEqual((names, y.grad_fn.name()), (["adjoint_conv_transpose"], "ConvTransposeBackward"))
            with computed() as names:
                y.sum().backward()
            self.assertEqual(names, [["adjoint_conv"], ["adjoint_conv_weight"], []][needed])
            with self.assertRaisesRegex(RuntimeError, "backward through the graph a second time"):
                y.sum().backward()

    @unittest.skipUnless(adj.backend() == "extension", "needs the extension")
    def test_what_is_saved_may_not_change(self):
        x, w = torch.randn(1, 2, 5), torch.randn(2, 3, 3, requires_grad=True)
        y = adj.conv_transpose1d(x, w)
        x.add_(1)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            y.sum().backward()

    def test_operators_have_tangents(self):
        if adj.backend() == "ctypes" and hasattr(torch.library, "register_autograd"):
            self.skipTest("torch.library's formulas are for reverse mode; adj's functions have both")
        x, w, b = torch.randn(1, 2, 5), torch.randn(3, 2, 3), torch.randn(3)
        with forward_ad.dual_level():
            duals = [forward_ad.make_dual(t, t.cos()) for t in (x, w, b)]
            results = [forward_ad.unpack_dual(y) for y in (
                torch.ops.adjoint.conv(*duals, [1], [0], [1], 1), torch.nn.functional.conv1d(*duals))]
        torch.testing.assert_close(results[0].primal, results[1].primal)
        torch.testing.assert_close(results[0].tangent, results[1].tangent)


@unittest.skipUnless(torch.cuda.is_available(), "needs a CUDA GPU")
class CudaTest(unittest.TestCase):
    def test_heeds_the_precision(self):
        x, w = torch.randn(4, 256, 512, device="cuda"), torch.randn(256, 256, 3, device="cuda")
        exact = torch.nn.functional.conv1d(x.double(), w.double())
        self.addCleanup(adj.set_precision, adj.get_precision())
        errors = []
        for precision in ("tf32", "float32"):
            adj.set_precision(precision)
            errors.append((adj.conv1d(x, w).double() - exact).abs().max().item())
        self.assertGreater(errors[0], 10 * errors[1])

    def test_knows_the_current_stream(self):
        device = torch.cuda.current_device()
        for stream in (torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()):
            with torch.cuda.stream(stream):
                self.assertEqual(native.current_stream(device), torch.cuda.current_stream().cuda_stream)

    def test_runs_on_the_current_stream(self):
        x = torch.zeros(1, 64, 1 << 16, device="cuda")
        w = torch.ones(64, 1, 1, device="cuda")
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(50_000_000)
            x.fill_(1.0)
            y = adj.conv_transpose1d(x, w)
        stream.synchronize()
        self.assertTrue(bool((y == 64).all()))

    def test_can_be_captured_in_a_graph(self):
        x, w = torch.randn(2, 16, 300, device="cuda"), torch.randn(16, 8, 4, device="cuda")
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            adj.conv_transpose1d(x, w, stride=2)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = adj.conv_transpose1d(x, w, stride=2)
        x.normal_()
        graph.replay()
        torch.testing.assert_close(y, adj.conv_transpose1d(x, w, stride=2), rtol=0, atol=0)

    def test_more_than_2_to_the_31_elements(self):
        count, piece = 2**31 + 8, 2**28
        needed = 2 * 2 * count + 4 * 2 * piece + 2**30
        free = torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        if free < needed:
            self.skipTest(f"needs {needed >> 20} MiB of the GPU's memory; {free >> 20} are free")
        x = torch.empty(1, 1, count, dtype=torch.float16, device="cuda").random_(-4, 5)
        w, b = torch.full((1, 1, 1), 3.0).to(x), torch.ones(1).to(x)
        for function in (adj.conv1d, adj.conv_transpose1d):
            with torch.no_grad():
                y = function(x, w, b)
            self.assertEqual(y.shape, x.shape)
            for begin in range(0, count, piece):
                part = slice(begin, begin + piece)
                self.assertTrue(torch.equal(y[..., part], 3 * x[..., part] + 1), f"{function.__name__} from {begin} on")
            del y
        torch.cuda.empty_cache()

    @unittest.skipUnless(torch.cuda.device_count() > 1, "needs two CUDA GPUs")
    def test_runs_where_its_tensors_are(self):
        with torch.cuda.device(0):
            for ours, theirs, *tensors, case in problems("cuda:1", torch.float64):
                results = []
                for function in (ours, theirs):
                    inputs = [t.clone().requires_grad_() for t in tensors]
                    y = function(*inputs, **case)
                    seed = torch.arange(y.numel(), dtype=y.dtype, device=y.device).remainder(7).view_as(y) - 3
                    results.append([y, *torch.autograd.grad(y, inputs, seed)])
                with self.subTest(function=ours.__name__, case=case):
                    for mine, reference in zip(*results):
                        self.assertEqual((str(mine.device), torch.cuda.current_device()), ("cuda:1", 0))
                        torch.testing.assert_close(mine, reference, rtol=0, atol=0)
            with self.assertRaisesRegex(ValueError, "must share dtype and device"):
                adj.conv1d(torch.ones(1, 1, 3, device="cuda:0"), torch.ones(1, 1, 3, device="cuda:1"))


if __name__ == "__main__":
    unittest.main()
