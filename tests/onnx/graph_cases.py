"""Cases of If, Loop and several nodes beyond ONNX's backend tests, as further_cases."""

import numpy as np
from further_cases import arrays, f32, i64, normal
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.mapping import NP_TYPE_TO_TENSOR_TYPE

node = helper.make_node
yes, no = np.array(True), np.array(False)


def body(nodes, inputs, outputs, constants=()):
    """Returns a graph; inputs and outputs are names, without the shapes that load_onnx does not read."""

    def ports(names):
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names]

    constants = [numpy_helper.from_array(x, name) for name, x in constants]
    return helper.make_graph(nodes, "body", ports(inputs), ports(outputs), constants)


def model_of(nodes, inputs, outputs, constants=(), operator_set=16):
    def ports(named):
        return [helper.make_tensor_value_info(name, NP_TYPE_TO_TENSOR_TYPE[x.dtype], x.shape) for name, x in named]

    constants = [numpy_helper.from_array(np.asarray(x), name) for name, x in constants]
    graph = helper.make_graph(nodes, "whole", ports(inputs), ports(outputs), constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", operator_set)])


def named(prefix, values):
    return [(f"{prefix}{i}", x) for i, x in enumerate(arrays(values))]


def case(name, nodes, inputs, outputs, constants=(), operator_set=16):
    """The graph's inputs are in0, in1, ..., and its outputs out0, out1, ..."""
    model = model_of(nodes, named("in", inputs), named("out", outputs), constants, operator_set)
    return TestCase(name, nodes[-1].op_type, None, None, model, [(arrays(inputs), arrays(outputs))], "node", 1e-3, 1e-7)


def loop(inputs, outputs, nodes, body_inputs, body_outputs, constants=()):
    return node("Loop", inputs, outputs, body=body(nodes, body_inputs, body_outputs, constants))


def cases():
    x, w = normal(2, 3), normal(2, 3)
    # Each branch has a separate weight under one name, and reads a value that nothing else reads.
    nodes = [
        node("Mul", ["in1", "in1"], ["square"]),
        node(
            "If",
            ["in0"],
            ["out0"],
            then_branch=body([node("Add", ["square", "w"], ["y"])], [], ["y"], [("w", w)]),
            else_branch=body([node("Sub", ["square", "w"], ["y"])], [], ["y"], [("w", 2 * w)]),
        ),
    ]
    yield case("if_then", nodes, [yes, x], [x * x + w])
    yield case("if_else", nodes, [no, x], [x * x - 2 * w])
    # A value of the graph around as output, behind a condition of one axis.
    same = [node("If", ["in0"], ["out0"], then_branch=body([], [], ["in1"]), else_branch=body([], [], ["in1"]))]
    yield case("if_passes", same, [np.array([False]), x], [x])
    # A loop in a loop; the outer one lists its state.
    inner = loop(["three", "", "state"], ["tripled"], [node("Add", ["s", "in0"], ["t"])], ["j", "c", "s"], ["c", "t"])
    outer = loop(
        ["in1", "", "in0"],
        ["out0", "out1"],
        [inner, node("Identity", ["tripled"], ["listed"])],
        ["i", "going", "state"],
        ["going", "tripled", "listed"],
    )
    states = np.stack([x * (1 + 3 * k) for k in (1, 2)])
    yield case("loop_in_loop", [outer], [x, i64(2)], [states[-1], states], [("three", i64(3))])
    # Without a limit, until a condition fails; the number of the step is int64.
    until = loop(
        ["", "in1", "in0"],
        ["out0"],
        [
            node("Cast", ["i"], ["number"], to=TensorProto.FLOAT),
            node("Add", ["state", "number"], ["next"]),
            node("Less", ["i", "last"], ["more"]),
        ],
        ["i", "going", "state"],
        ["more", "next"],
        [("last", i64(4))],
    )
    yield case("loop_until", [until], [x, yes], [x + f32(10)])
    yield case("loop_never", [until], [x, no], [x])
    # Before set 14, batch normalisation in training has five outputs, of which a network reads the first.
    outputs = ["out0", "mean", "var", "saved_mean", "saved_var"]
    statistics = [(name, np.ones(3, f32)) for name in ("scale", "shift", "m", "v")]
    normalization = node("BatchNormalization", ["in0", "scale", "shift", "m", "v"], outputs)
    y = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5) + 1
    yield case("batch_norm_trains", [normalization], [x], [y.astype(f32)], statistics, 13)


def refused():
    x = normal(2, 3)
    passes = body([], [], ["in1"])

    def refusal(message, nodes, inputs):
        model = model_of(nodes, named("in", inputs), [("out0", x)])
        return f"{nodes[-1].op_type}: {message}", model, arrays(inputs), message

    def choice(**branches):
        return [node("If", ["in0"], ["out0"], **branches)]

    both = choice(then_branch=passes, else_branch=passes)
    yield refusal("its condition must be one bool; got float32 (2, 3)", both, [x, x])
    yield refusal("its condition must be one bool; got bool (2,)", both, [np.array([True, False]), x])
    yield refusal("If must have the attribute else_branch", choice(then_branch=passes), [yes, x])
    none = body([], [], [])
    message = "a body must have its node's inputs and outputs; got 0 and 0 of If node"
    yield refusal(message, choice(then_branch=none, else_branch=none), [yes, x])
    lists = loop(["in1", ""], ["out0"], [node("Identity", ["in0"], ["y"])], ["i", "going"], ["going", "y"])
    yield refusal("its lists must have an element; got a loop without a step", [lists], [x, i64(0)])
    short = loop(["in1", "", "in0"], ["out0"], [], ["i", "going"], ["going", "in0"])
    yield refusal("got 2 and 2 of Loop node", [short], [x, i64(1)])
    inside = body([node("NonMaxSuppression", ["in1"], ["y"])], [], ["y"])
    yield refusal("got NonMaxSuppression node 'y'", choice(then_branch=inside, else_branch=passes), [yes, x])
    unseen = choice(then_branch=body([node("Neg", ["in1"], ["y"])], [], ["y"]), else_branch=passes)
    unseen.append(node("Neg", ["y"], ["out1"]))
    yield refusal('a value must be made before it is used; got "y" in Neg node', unseen, [yes, x])
