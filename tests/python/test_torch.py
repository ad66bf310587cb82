"""adjoint.torch against torch.nn: results, gradients of both orders, modules, autocast, replace.

Needs PyTorch, and the shared library in ADJOINT_LIBRARY. Runs on the CPU, and on a GPU where PyTorch sees one.
"""

import contextlib
import ctypes
import itertools
import threading
import unittest
import warnings
from unittest import mock

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest(f"needs PyTorch: {error}")

import adjoint.torch as adj
from adjoint.library import Context

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
CASES_1D = [dict(zip(("stride", "padding", "output_padding", "groups", "dilation"), values)) for values in [
    (1, 0, 0, 1, 1), (2, 1, 1, 2, 1), (3, 2, 2, 1, 2), (2, 0, 0, 4, 3), (5, 1, 4, 1, 1), (1, 3, 2, 2, 3)]]
CASES_2D = CASES_1D + [dict(stride=(2, 3), padding=(1, 0), output_padding=(0, 2), groups=2, dilation=(2, 1))]


def integers(*shape, dtype, device):
    return torch.randint(-4, 5, shape, device=device).to(dtype)


def problems(device, dtype):
    """(Adjoint's function, PyTorch's, input, weight, bias, attributes)"""
    torch.manual_seed(0)
    for rank, cases in ((1, CASES_1D), (2, CASES_2D)):
        ours, theirs = getattr(adj, f"conv_transpose{rank}d"), getattr(torch.nn.functional, f"conv_transpose{rank}d")
        for case in cases:
            x = integers(2, 4, *(7, 5)[:rank], dtype=dtype, device=device)
            w = integers(4, 6 // case["groups"] if 6 % case["groups"] == 0 else 2, *(3, 4)[:rank], dtype=dtype, device=device)
            b = integers(w.shape[1] * case["groups"], dtype=dtype, device=device)
            yield ours, theirs, x, w, b, case


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
                inputs = [t[:1].clone() if t is x else t for t in (x, w, b)]
                inputs = [t.detach().requires_grad_() for t in inputs]
                with self.subTest(device=device, case=case):
                    self.assertTrue(torch.autograd.gradcheck(lambda *t: ours(*t, **case), inputs))
                    self.assertTrue(torch.autograd.gradgradcheck(lambda *t: ours(*t, **case), inputs))

    def test_strides_unbatched_input_and_no_bias(self):
        for device in DEVICES:
            x = integers(9, 4, 2, dtype=torch.float64, device=device).permute(2, 1, 0)
            w = integers(3, 4, 6, dtype=torch.float64, device=device).permute(1, 2, 0)
            expected = torch.nn.functional.conv_transpose1d(x, w, stride=2)
            torch.testing.assert_close(adj.conv_transpose1d(x, w, stride=2), expected, rtol=0, atol=0)
            torch.testing.assert_close(adj.conv_transpose1d(x[1], w, stride=2), expected[1], rtol=0, atol=0)
            self.assertEqual(adj.conv_transpose1d(x[:0], w).shape, (0, 6, 11))

    def test_lazily_negated_tensors(self):
        # A view that reads the other sign of what lies in memory: contiguous, every second element, and as PyTorch itself
        # makes them, of a conjugated complex tensor's imaginary part.
        def views(t):
            yield torch._neg_view(t)
            yield torch._neg_view(torch.stack((t, t + 1), -1))[..., 0]
            yield torch.complex(t + 2, t).conj().imag

        for device in DEVICES:
            tensors = [
                integers(2, 4, 5, 6, dtype=torch.float64, device=device),
                integers(4, 3, 3, 3, dtype=torch.float64, device=device),
                integers(6, dtype=torch.float64, device=device),
            ]
            seed = integers(2, 6, 7, 8, dtype=torch.float64, device=device)
            case = dict(groups=2)
            for place, view in itertools.product(range(4), range(3)):
                leaves = [t.clone().requires_grad_() for t in tensors]
                results = []
                for function in (adj.conv_transpose2d, torch.nn.functional.conv_transpose2d):
                    inputs, gradient = list(leaves), seed
                    if place < 3:
                        inputs[place] = list(views(inputs[place]))[view]
                        self.assertTrue(inputs[place].is_neg())
                    else:
                        gradient = list(views(seed))[view]
                        self.assertTrue(gradient.is_neg())
                    with torch.no_grad():
                        without = function(*inputs, **case)
                    y = function(*inputs, **case)
                    first = torch.autograd.grad(y, leaves, gradient, create_graph=True)
                    second = torch.autograd.grad([torch._neg_view(g).square().sum() for g in first[:2]], leaves[:2])
                    results.append([without, y, *first, *second])
                with self.subTest(device=device, place=place, view=view):
                    for mine, reference in zip(*results):
                        torch.testing.assert_close(mine, reference, rtol=0, atol=0)

    def test_lazily_negated_parameters_of_a_module(self):
        for ours, theirs in ((adj.ConvTranspose1d, torch.nn.ConvTranspose1d), (adj.ConvTranspose2d, torch.nn.ConvTranspose2d)):
            torch.manual_seed(1)
            mine, reference = ours(2, 3, 3).double(), theirs(2, 3, 3).double()
            for name in ("weight", "bias"):
                negated = torch.nn.Parameter(torch._neg_view(getattr(reference, name).detach().clone()))
                self.assertTrue(negated.is_neg())
                setattr(mine, name, negated)
                setattr(reference, name, torch.nn.Parameter(negated.detach().resolve_neg()))
            x = torch.randn(1, 2, *(5,) * mine._rank, dtype=torch.float64)
            torch.testing.assert_close(mine(x), reference(x))
            torch.testing.assert_close(mine(x[0]), reference(x[0]))

    def test_only_needed_gradients_are_computed(self):
        x, w = torch.randn(1, 2, 5), torch.randn(2, 3, 3)
        for needed, operator in ((x, "adjoint_conv"), (w, "adjoint_conv_weight")):
            y = adj.conv_transpose1d(*(t.clone().requires_grad_(t is needed) for t in (x, w)))
            with self.subTest(operator), mock.patch.object(adj, "_run", wraps=adj._run) as run:
                y.sum().backward()
                self.assertEqual([call.args[0] for call in run.call_args_list], [operator])

    def test_gradients_that_do_not_lie_one_after_another(self):
        for device in DEVICES:
            x = integers(2, 4, 5, 6, dtype=torch.float64, device=device)
            w = integers(4, 3, 3, 3, dtype=torch.float64, device=device)
            b = integers(6, dtype=torch.float64, device=device)[::2]
            seed = integers(2, 3, 7, 8, dtype=torch.float64, device=device)
            for seed in (seed[:1, :1, :1, :1].expand_as(seed), seed.to(memory_format=torch.channels_last)):
                results = []
                for function in (adj.conv_transpose2d, torch.nn.functional.conv_transpose2d):
                    inputs = [t.detach().requires_grad_() for t in (x, w, b)]
                    results.append(torch.autograd.grad(function(*inputs), inputs, seed))
                for mine, reference in zip(*results):
                    torch.testing.assert_close(mine, reference, rtol=0, atol=0)

    def test_only_what_is_differentiated_is_recorded(self):
        tensors = torch.randn(1, 2, 5), torch.randn(2, 3, 3), torch.randn(3)
        leaves = [t.clone().requires_grad_() for t in tensors]
        expected = adj.conv_transpose1d(*tensors)
        with contextlib.ExitStack() as patches:
            applied = [
                patches.enter_context(mock.patch.object(operator, "apply", wraps=operator.apply))
                for operator in (adj._ConvTranspose, adj._Conv, adj._ConvWeight)
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

    def test_forward_mode_is_refused_not_ignored(self):
        x, w = torch.randn(1, 2, 5), torch.randn(2, 3, 3)
        for grad_mode in (True, False):
            with torch.autograd.forward_ad.dual_level(), torch.set_grad_enabled(grad_mode):
                dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
                with self.subTest(grad_mode=grad_mode), self.assertRaises(NotImplementedError):
                    adj.conv_transpose1d(dual, w)

    def test_traces_are_right_or_refused(self):
        x, w = torch.randn(1, 2, 5), torch.randn(2, 3, 3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                traced = torch.jit.trace(lambda x: adj.conv_transpose1d(x, w), (x,), check_trace=False)
            except RuntimeError:
                return
            torch.testing.assert_close(traced(x + 1), adj.conv_transpose1d(x + 1, w), rtol=0, atol=0)

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
        every = itertools.product((0, 1), (0, 0xABCDEF012345), adj._DTYPES, adj._PRECISIONS)
        contexts = {fields: adj._context(*fields).native for fields in every}
        for (device, stream, dtype, precision), native in contexts.items():
            self.assertEqual((native.device, native.stream or 0, native.dtype, native.precision),
                             (device, stream, adj._DTYPES[dtype], adj._PRECISIONS[precision]))

    def test_set_precision_holds_from_the_next_call_on(self):
        x, w = torch.randn(1, 2, 5), torch.randn(2, 3, 3, requires_grad=True)
        given = []

        def call(function, context, *rest):
            given.append(ctypes.cast(context, ctypes.POINTER(Context)).contents.precision)
            return library_call(function, context, *rest)

        library_call = adj.library.call
        self.addCleanup(adj.set_precision, adj.get_precision())
        with mock.patch.object(adj.library, "call", call):
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

    def test_mistakes_are_errors(self):
        x, w = torch.ones(1, 2, 5), torch.ones(2, 3, 3)
        for message, call in {
            "must have 3 axes": lambda: adj.conv_transpose1d(x[0, 0], w),
            "must share dtype": lambda: adj.conv_transpose1d(x.double(), w),
            "must be on the CPU or on a CUDA device": lambda: adj.conv_transpose1d(x.to("meta"), w.to("meta")),
            "the dtype must be": lambda: adj.conv_transpose1d(x.int(), w.int()),
            "input channels must equal": lambda: adj.conv_transpose1d(x, w.transpose(0, 1)),
            "output_padding must be below": lambda: adj.conv_transpose1d(x, w, output_padding=1),
            "stride and dilation must be positive": lambda: adj.conv_transpose1d(x, w, stride=0),
            "extents must be at least 1": lambda: adj.conv_transpose1d(x, w, padding=4),
            "bias must have shape (3,)": lambda: adj.conv_transpose1d(x, w, torch.ones(2)),
            "precision must be one of": lambda: adj.set_precision("tf16"),
        }.items():
            with self.subTest(message), self.assertRaises(ValueError) as caught:
                call()
            self.assertIn(message, str(caught.exception))


class ModuleTest(unittest.TestCase):
    def pairs(self):
        for options in (dict(stride=2, padding=1), dict(stride=3, output_padding=2, groups=2), dict(dilation=2, bias=False)):
            for ours, theirs in ((adj.ConvTranspose1d, torch.nn.ConvTranspose1d), (adj.ConvTranspose2d, torch.nn.ConvTranspose2d)):
                torch.manual_seed(1)
                mine = ours(4, 6, 3, **options)
                torch.manual_seed(1)
                yield mine, theirs(4, 6, 3, **options)

    def test_same_initial_weights_and_state(self):
        for mine, reference in self.pairs():
            self.assertEqual(list(mine.state_dict()), list(reference.state_dict()))
            for name, value in reference.state_dict().items():
                self.assertTrue(torch.equal(mine.state_dict()[name], value))
            mine.load_state_dict(reference.state_dict())
            self.assertEqual(repr(mine), repr(reference))

    def test_forward_and_output_size(self):
        for mine, reference in self.pairs():
            rank = mine._rank
            x = torch.randn(2, 4, *(6, 5)[:rank])
            torch.testing.assert_close(mine(x), reference(x))
            if reference.stride[0] > 1:
                size = [n + 1 for n in reference(x).shape[2:]] if reference.output_padding[0] == 0 else list(reference(x).shape[2:])
                torch.testing.assert_close(mine(x, output_size=size), reference(x, output_size=size))

    def test_replace_keeps_everything(self):
        model = torch.nn.Sequential(torch.nn.ConvTranspose2d(3, 8, 4, 2, 1), torch.nn.ReLU(),
                                    torch.nn.Sequential(torch.nn.ConvTranspose2d(8, 3, 3)))
        x = torch.randn(1, 3, 5, 6)
        expected, weight = model(x), model[0].weight
        self.assertIs(adj.replace(model), model)
        self.assertIsInstance(model[0], adj.ConvTranspose2d)
        self.assertIsInstance(model[2][0], adj.ConvTranspose2d)
        self.assertIs(model[0].weight, weight)
        torch.testing.assert_close(model(x), expected)


@unittest.skipUnless(torch.cuda.is_available(), "needs a CUDA GPU")
class CudaTest(unittest.TestCase):
    def test_knows_the_current_stream(self):
        device = torch.cuda.current_device()
        for stream in (torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()):
            with torch.cuda.stream(stream):
                self.assertEqual(adj._current_stream(device), torch.cuda.current_stream().cuda_stream)

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


if __name__ == "__main__":
    unittest.main()
