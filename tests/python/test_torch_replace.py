"""adjoint.torch.replace and restore: kept properties, and modules that are left, with the reasons.

The tests need PyTorch, and the shared library in ADJOINT_LIBRARY.
"""

import copy
import itertools
import pickle
import unittest
import warnings

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest(f"needs PyTorch: {error}")

from torch import nn
from torch.nn.utils import parametrizations, parametrize

import adjoint.torch as adj
from test_torch import computed

KINDS = ("Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")


def layer(kind):
    torch.manual_seed(0)
    return getattr(nn, kind)(4, 6, 3, stride=2, padding=1).double()


def input_of(module):
    torch.manual_seed(1)
    return torch.randn(2, 4, *(9, 8, 5)[: len(module.kernel_size)], dtype=torch.float64)


class Scaled(nn.Conv1d):
    """A subclass that overrides forward."""

    def forward(self, input):
        return 2 * super().forward(input)


class Standardised(nn.Conv2d):
    """A subclass that computes with another weight."""

    def forward(self, input):
        return self._conv_forward(input, self.weight - self.weight.mean(), self.bias)


class Plain(nn.ConvTranspose2d):
    """A subclass that changes nothing."""


SUBCLASSES = (Scaled, Standardised, Plain)


class ReplaceTest(unittest.TestCase):
    def test_everything_of_a_model_stays(self):
        model = nn.ModuleDict({kind: nn.Sequential(nn.ReLU(), layer(kind)) for kind in KINDS})
        before = {name: (module, module.weight, module.bias) for name, module in model.named_modules() if hasattr(module, "weight")}
        expected = {kind: model[kind](input_of(model[kind][1])) for kind in KINDS}
        state = list(model.state_dict())
        report = adj.replace(model)
        self.assertEqual(report.replaced, {f"{kind}.1": kind for kind in KINDS})
        self.assertEqual(report.left, {})
        self.assertEqual(list(model.state_dict()), state)
        for name, (module, weight, bias) in before.items():
            self.assertIs(model.get_submodule(name), module)
            self.assertTrue(module.weight is weight and module.bias is bias)
        for kind in KINDS:
            self.assertIs(type(model[kind][1]), getattr(adj, kind))
            torch.testing.assert_close(model[kind](input_of(model[kind][1])), expected[kind])
        again = adj.restore(model)
        self.assertEqual(again.replaced, report.replaced)
        for kind in KINDS:
            self.assertIs(type(model[kind][1]), getattr(nn, kind))

    def test_a_layer_alone_is_a_model(self):
        for kind in KINDS:
            module = layer(kind)
            self.assertEqual(adj.replace(module).replaced, {"": kind})
            self.assertIs(type(module), getattr(adj, kind))

    def test_kinds_that_are_asked_for(self):
        for transposed, conv in ((True, False), (False, True), (False, False)):
            model = nn.ModuleDict({kind: layer(kind) for kind in KINDS})
            report = adj.replace(model, transposed=transposed, conv=conv)
            wanted = {kind for kind in KINDS if (transposed if "Transpose" in kind else conv)}
            self.assertEqual(set(report.replaced), wanted)
            self.assertEqual(report.left, {kind: "its kind was not asked for" for kind in set(KINDS) - wanted})

    def test_what_is_left_and_why(self):
        patched = layer("Conv1d")
        patched.forward = lambda input: input
        model = nn.ModuleDict({
            "patched": patched, "ours": adj.Conv1d(1, 1, 1), "sub": Scaled(1, 1, 1),
            "integers": nn.Conv1d(1, 1, 1), "linear": nn.Linear(1, 1),
        })
        model["integers"].weight = nn.Parameter(torch.ones(1, 1, 1, dtype=torch.int8), requires_grad=False)
        types = {name: type(module) for name, module in model.items()}
        report = adj.replace(model)
        self.assertEqual(report.replaced, {})
        self.assertEqual(report.left, {
            "patched": "its forward was replaced on the module itself",
            "ours": "it is Adjoint's", "sub": "it is a Scaled, a subclass that was not asked for",
            "integers": "its weight is of torch.int8",
        })
        self.assertEqual({name: type(module) for name, module in model.items()}, types)
        self.assertIn("0 replaced, 4 left", str(report))
        self.assertIn("  sub: left, it is a Scaled, a subclass", str(report))

    def test_filters_are_held_as_kernels_read_them(self):
        last = torch.channels_last

        def convert(model):
            model.to(memory_format=last)

        norms = (lambda module: module, nn.utils.weight_norm, parametrizations.spectral_norm)
        for kind, norm in itertools.product(("Conv2d", "ConvTranspose2d"), norms):
            for steps in ((convert, adj.replace), (adj.replace, convert), (convert, adj.replace, adj.restore)):
                model, reference = (nn.Sequential(norm(layer(kind))).eval() for _ in range(2))
                reference.load_state_dict(model.state_dict())  # spectral_norm begins with random vectors
                convert(reference)
                parameters = list(model.parameters())
                for step in steps:
                    step(model)
                with self.subTest(kind=kind, norm=norm, steps=[step.__name__ for step in steps]):
                    for now, before, value in zip(model.parameters(), parameters, reference.parameters()):
                        self.assertIs(now, before)
                        self.assertTrue(now.is_contiguous())
                    for key, value in reference.state_dict().items():
                        torch.testing.assert_close(model.state_dict()[key], value, rtol=0, atol=0)
                    results = []
                    for m in (model, reference):
                        x = input_of(layer(kind)).contiguous(memory_format=last).requires_grad_()
                        y = m(x)
                        results.append([y, *torch.autograd.grad(y.square().sum(), (x, *m.parameters()))])
                        if isinstance(m[0], (adj.Conv2d, adj.ConvTranspose2d)):  # PyTorch's may lack this layout in float64
                            self.assertTrue(all(t.is_contiguous(memory_format=last) for t in results[-1][:2]))
                    torch.testing.assert_close(*results)

    def test_filters_of_one_pixel_are_held_so_too(self):
        for kind in ("Conv2d", "ConvTranspose2d"):
            model = nn.Sequential(getattr(nn, kind)(4, 6, 1)).to(memory_format=torch.channels_last)
            address = model[0].weight.data_ptr()
            adj.replace(model)  # their strides alone would ask for a result in torch.channels_last
            self.assertEqual(model[0].weight.data_ptr(), address)
            for memory_format in (torch.contiguous_format, torch.channels_last):
                x = torch.randn(2, 4, 3, 5).contiguous(memory_format=memory_format)
                self.assertTrue(model(x).is_contiguous(memory_format=memory_format))

    def test_filters_that_are_parts_of_something_else_stay_so(self):
        model = layer("Conv2d")
        whole = torch.randn(6, 8, 3, 3, dtype=torch.float64).contiguous(memory_format=torch.channels_last)
        model.weight = nn.Parameter(whole[:, 2:6])
        adj.replace(model)
        whole.mul_(2)
        self.assertTrue(torch.equal(model.weight, whole[:, 2:6]))

    def test_filters_of_several_processes_stay_shared(self):
        model = layer("Conv2d").to(memory_format=torch.channels_last).share_memory()
        reference, address = copy.deepcopy(model), model.weight.data_ptr()
        adj.replace(model)
        self.assertTrue(model.weight.is_shared())
        self.assertEqual(model.weight.data_ptr(), address)
        torch.testing.assert_close(model(input_of(model)), reference(input_of(model)))

    def test_hooks_and_shared_modules_stay(self):
        shared = layer("Conv1d")
        calls = []
        shared.register_forward_pre_hook(lambda module, arguments: calls.append("before"))
        shared.register_forward_hook(lambda module, arguments, output: calls.append("after"))
        model = nn.ModuleDict({"a": shared, "b": shared})
        self.assertEqual(adj.replace(model).replaced, {"a": "Conv1d"})
        self.assertIs(model["a"], model["b"])
        model["b"](input_of(shared))
        self.assertEqual(calls, ["before", "after"])

    def test_parametrisations_stay(self):
        new_weight_norm = getattr(parametrizations, "weight_norm", None)
        spellings = {
            "weight_norm": nn.utils.weight_norm, "spectral_norm": nn.utils.spectral_norm,
            "parametrizations.spectral_norm": parametrizations.spectral_norm,
        }
        if new_weight_norm is not None:
            spellings["parametrizations.weight_norm"] = new_weight_norm
        for kind in KINDS:
            for spelling, normed in spellings.items():
                with self.subTest(kind=kind, spelling=spelling), warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # the old spellings are deprecated
                    mine, reference = normed(layer(kind)), normed(layer(kind))
                    self.assertEqual(list(adj.replace(mine).replaced.values()), [type(mine).__name__])
                    self.assertIsInstance(mine, getattr(adj, kind))
                    x = input_of(reference)
                    for _ in range(2):  # each call changes spectral_norm's vectors
                        results = []
                        for module in (mine, reference):
                            y = module(x)
                            results.append([y, *torch.autograd.grad(y.square().sum(), list(module.parameters()))])
                        for a, b in zip(*results):
                            torch.testing.assert_close(a, b)
                    self.assertEqual(list(mine.state_dict()), list(reference.state_dict()))
                    for module in (mine, reference):
                        if parametrize.is_parametrized(module):
                            parametrize.remove_parametrizations(module, "weight")
                        else:
                            getattr(nn.utils, f"remove_{spelling}")(module)
                    self.assertIs(type(mine), getattr(adj, kind))
                    torch.testing.assert_close(mine(x), reference(x))

    def test_restored_parametrisations(self):
        module = parametrizations.spectral_norm(layer("Conv1d"))
        reference = copy.deepcopy(module)
        adj.replace(module)
        copied = copy.deepcopy(module)
        self.assertIsInstance(copied, adj.Conv1d)
        adj.restore(module)
        self.assertNotIsInstance(module, adj.Conv1d)
        self.assertIsInstance(copied, adj.Conv1d)
        x = input_of(module)
        torch.testing.assert_close(module(x), reference(x))
        parametrize.remove_parametrizations(module, "weight")
        self.assertIs(type(module), nn.Conv1d)

    def test_subclasses_that_are_asked_for(self):
        def made():
            torch.manual_seed(0)
            return nn.ModuleDict({kind.__name__: kind(4, 6, 3).double() for kind in SUBCLASSES})

        for names in (SUBCLASSES, [kind.__name__ for kind in SUBCLASSES], [f"{__name__}.{k.__qualname__}" for k in SUBCLASSES]):
            model, reference = made(), made()
            report = adj.replace(model, subclasses=names)
            self.assertEqual(set(report.replaced), set(model))
            for kind in SUBCLASSES:
                module = model[kind.__name__]
                self.assertIsInstance(module, kind)
                self.assertIsInstance(module, getattr(adj, kind.__bases__[0].__name__))
                x = input_of(module)
                with computed() as names_of_calls:
                    torch.testing.assert_close(module(x), reference[kind.__name__](x))
                self.assertEqual(len(names_of_calls), 1)
                for copied in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
                    self.assertIs(type(copied), type(module))
                    torch.testing.assert_close(copied(x), module(x))
            adj.restore(model)
            self.assertEqual([type(module) for module in model.values()], list(SUBCLASSES))

    def test_one_subclass_and_those_that_no_module_is_of(self):
        for asked in (Scaled, "Scaled", f"{__name__}.Scaled"):
            model = nn.Sequential(Scaled(4, 6, 3))
            for _ in range(2):  # in the second call the module is Adjoint's
                report = adj.replace(model, subclasses=asked)
                self.assertIsInstance(model[0], adj.Conv1d)
                self.assertEqual(set(report.left), {"0"} if report.left else set())
        report = adj.replace(model, subclasses=("Scale", Plain))
        self.assertEqual(report.left.pop("0"), "it is Adjoint's")
        self.assertEqual(set(report.left), {"subclasses: Scale", f"subclasses: {Plain}"})
        self.assertEqual(set(report.left.values()), {"no convolution of the model is of it"})

    def test_lazy_modules_are_replaced_by_their_first_call(self):
        for kind in KINDS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # lazy modules warn
                model = nn.Sequential(getattr(nn, kind.replace("Conv", "LazyConv", 1))(6, 3))
            report = adj.replace(model)
            self.assertEqual(report.replaced, {"0": f"Lazy{kind}, once it has been called"})
            self.assertEqual(adj.replace(model).left, {"0": "it is Adjoint's"})
            x = torch.randn(2, 4, *(9, 8, 5)[: int(kind[-2])])
            expected = model(x)
            self.assertIs(type(model[0]), getattr(adj, kind))
            torch.testing.assert_close(model(x), expected)
            adj.restore(model)
            self.assertNotIn(b"adjoint", pickle.dumps(model))

    def test_lazy_modules_can_be_restored_before(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = nn.Sequential(nn.LazyConv1d(6, 3))
        adj.replace(model)
        adj.restore(model)
        model(torch.randn(2, 4, 9))
        self.assertIs(type(model[0]), nn.Conv1d)

    def test_lazy_modules_can_be_restored_before_their_trial(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = nn.Sequential(nn.LazyConv1d(6, 3))
        adj.replace(model, only_where_faster=True)
        adj.restore(model)
        model(torch.randn(2, 4, 9))
        self.assertFalse(model[0]._forward_hooks)

    def test_lazy_subclasses(self):
        class LazyFirst(nn.LazyConv1d):
            pass

        class LazyScaled(nn.LazyConv1d):
            cls_to_become = Scaled

        x = torch.randn(2, 4, 9)
        for kind, subclasses, becomes in ((LazyFirst, (), adj.Conv1d), (LazyScaled, (Scaled,), Scaled), (LazyScaled, (), None)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = nn.Sequential(kind(6, 3))
            report = adj.replace(model, subclasses=subclasses)
            self.assertFalse(adj.replace(model, subclasses=subclasses).replaced)
            expected = model(x)
            if becomes is None:
                self.assertEqual(report.left, {"0": "it is a Scaled, a subclass that was not asked for"})
                self.assertIs(type(model[0]), Scaled)
                continue
            self.assertEqual(report.replaced, {"0": f"{kind.__name__}, once it has been called"})
            self.assertIsInstance(model[0], becomes)
            with computed() as calls:
                actual = model(x)
            self.assertEqual(calls, ["adjoint_conv"])
            torch.testing.assert_close(pickle.loads(pickle.dumps(model))(x), actual)
            adj.restore(model)
            self.assertIs(type(model[0]), nn.Conv1d if kind is LazyFirst else Scaled)
            torch.testing.assert_close(actual, model(x))

    def test_uninitialised_modules_that_are_not_lazy_are_left(self):
        model = nn.Sequential(nn.Conv1d(4, 6, 3))
        model[0].weight = nn.parameter.UninitializedParameter()
        model.append(Scaled(4, 6, 3))
        model[1].weight = nn.parameter.UninitializedParameter()
        report = adj.replace(model)
        self.assertEqual(report.replaced, {"0": "Conv1d, once it has been called"})
        self.assertEqual(report.left, {"1": "it is a Scaled, a subclass that was not asked for"})

    def test_parametrised_subclasses_are_not_pickled(self):
        model = parametrizations.spectral_norm(Scaled(4, 4, 3).double())
        adj.replace(model, subclasses=(Scaled,))
        copy.deepcopy(model)(input_of(model))
        with self.assertRaisesRegex(RuntimeError, "state_dict"):  # PyTorch's own message
            pickle.dumps(model)

    def test_subclasses_of_adjoints_are_not_restored(self):
        class Mine(adj.Conv1d):
            pass

        report = adj.restore(nn.Sequential(Mine(4, 6, 3)))
        self.assertEqual((report.replaced, report.left), ({}, {"0": "it is a Mine, a subclass of Adjoint's"}))

    def test_replaced_models_are_copied_and_pickled(self):
        model = nn.Sequential(*(layer(kind) for kind in KINDS))
        adj.replace(model)
        for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            self.assertEqual([type(module) for module in copied], [type(module) for module in model])
            for a, b in zip(copied.parameters(), model.parameters()):
                self.assertTrue(torch.equal(a, b) and a is not b)


if __name__ == "__main__":
    unittest.main()
