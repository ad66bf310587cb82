"""Cases beyond ONNX's backend tests: older operator sets, and attributes, dtypes and shapes that those leave out.

cases() yields them as those tests do; refused() yields (name, model, inputs, part of the Error's message).
"""

import numpy as np
from onnx import helper
from onnx.backend.test.case.test_case import TestCase
from onnx.mapping import NP_TYPE_TO_TENSOR_TYPE

f32, f64, i32, i64, u8 = np.float32, np.float64, np.int32, np.int64, np.uint8
numbers = np.random.RandomState(0)


def model_of(operator, operator_set, inputs, outputs, attributes):
    """Returns a model of one node. Inputs that are None are omitted."""
    given = [(f"in{i}" if x is not None else "", x) for i, x in enumerate(inputs)]
    made = [(f"out{i}", x) for i, x in enumerate(outputs)]
    node = helper.make_node(operator, [name for name, _ in given], [name for name, _ in made], **attributes)

    def ports(named):
        types = [(name, NP_TYPE_TO_TENSOR_TYPE[x.dtype], x.shape) for name, x in named if name]
        return [helper.make_tensor_value_info(*port) for port in types]

    graph = helper.make_graph([node], operator, ports(given), ports(made))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", operator_set)])


def arrays(values):
    return [x if x is None else np.asarray(x) for x in values]


def case(operator, operator_set, inputs, outputs, **attributes):
    inputs, outputs = arrays(inputs), arrays(outputs)
    model = model_of(operator, operator_set, inputs, outputs, attributes)
    name = "_".join([operator, str(operator_set), *(f"{key}={value}" for key, value in attributes.items())])
    data = [([x for x in inputs if x is not None], outputs)]
    return TestCase(name, operator, None, None, model, data, "node", 1e-3, 1e-7)


def normal(*shape):
    return np.asarray(numbers.randn(*shape)).astype(f32)


def complex_pairs(z):
    return np.stack((z.real, z.imag), -1).astype(f32)


def flattened():
    """Before set 13, all axes from `axis` on are one."""
    x = normal(2, 3, 4)
    for axis in (0, 1, -1):
        rows = x.reshape(int(np.prod(x.shape[: axis % 3])), -1).astype(f64)
        powers = np.exp(rows - rows.max(1, keepdims=True))
        softmax = (powers / powers.sum(1, keepdims=True)).reshape(x.shape)
        hardmax = (rows == rows.max(1, keepdims=True)).reshape(x.shape)
        yield case("Softmax", 11, [x], [softmax.astype(f32)], axis=axis)
        yield case("LogSoftmax", 11, [x], [np.log(softmax).astype(f32)], axis=axis)
        yield case("Hardmax", 11, [x], [hardmax.astype(f32)], axis=axis)


def elementwise():
    x = normal(2, 3, 4)
    a, b = np.array([[-7, 7, 9], [8, -8, 0]], i32), np.array([[2, -2, 3], [-3, 5, 4]], i32)
    yield case("Div", 14, [a, b], [np.trunc(a / b).astype(i32)])
    yield case("Mod", 13, [a, b], [np.mod(a, b)])
    yield case("Mod", 13, [a, b], [np.fmod(a, b)], fmod=1)
    yield case("Pow", 15, [x, f32(2)], [x**2])
    yield case("Pow", 15, [f32(2), np.array([[1, 2]], i64)], [np.array([[2, 4]], f32)])
    yield case("Pow", 15, [np.array([2, 3], i32), np.array([0.5, 2], f32)], [np.array([1, 9], i32)])
    bits, steps = np.array([255, 1, 3, 129], u8), np.array([9, 7, 1, 8], u8)
    yield case("BitShift", 11, [bits, steps], [np.array([0, 128, 6, 0], u8)], direction="LEFT")
    yield case("BitShift", 11, [bits, steps], [np.array([0, 0, 1, 0], u8)], direction="RIGHT")
    for function, values in (
        (np.arccosh, [1, 1 + 1e-6, 1.5, 1e10, 1e30]),
        (np.arcsinh, [0, 1e-8, -1e-8, 0.5, -2, 1e10, -1e30]),
        (np.arctanh, [0, 1e-8, -1e-8, 0.3, -0.999]),
    ):
        values = np.array(values, f32)
        operator = {"arccosh": "Acosh", "arcsinh": "Asinh", "arctanh": "Atanh"}[function.__name__]
        yield case(operator, 9, [values], [function(values.astype(f64)).astype(f32)])
    infinite = np.array([np.inf, -np.inf, 0], f32)
    yield case("IsInf", 10, [infinite], [np.zeros(3, bool)], detect_negative=0, detect_positive=0)
    yield case("Clip", 11, [x, f32(-0.5)], [np.maximum(x, f32(-0.5))])
    yield case("Clip", 13, [a, None, i32(2)], [np.minimum(a, 2)])
    yield case("Clip", 13, [x, f32(1), f32(-1)], [np.full_like(x, -1)])
    for shape in ((), (1,), (3, 1), (1, 4), (2, 1, 1), (2, 3, 4)):
        slope = normal(*shape)
        yield case("PRelu", 16, [x, slope], [np.where(x < 0, slope * x, x).astype(f32)])
    yield case("Shrink", 9, [a], [np.where(a < -2, a + 1, np.where(a > 2, a - 1, 0)).astype(i32)], lambd=2.0, bias=1.0)
    yield case("Dropout", 10, [x], [x, np.ones(x.shape, bool)], ratio=0.3)
    yield case("Dropout", 13, [x, f32(0.3), np.array(False)], [x, np.ones(x.shape, bool)])


def reductions():
    x, a = normal(2, 3, 4), np.array([[1, -2, 4], [8, -8, 3]], i32)
    yield case("ReduceSum", 11, [x], [x.sum((0, 2), keepdims=True)], axes=[0, -1])
    for operator, result in (
        ("ReduceMean", [[1], [1]]),
        ("ReduceL1", [[7], [19]]),
        ("ReduceL2", [[4], [11]]),
        ("ReduceLogSum", [[1], [1]]),
        ("ReduceProd", [[-8], [-192]]),
        ("ReduceSumSquare", [[21], [137]]),
    ):
        yield case(operator, 13, [a], [np.array(result, i32)], axes=[1])
    yield case("CumSum", 14, [a, i64([0])], [np.array([[8, -8, 3], [0, 0, 0]], i32)], exclusive=1, reverse=1)
    yield case("ArgMax", 13, [np.array([[1, 3, 3], [2, 2, 1]], i64)], [[[2], [1]]], axis=1, select_last_index=1)
    least = [np.sort(x, 1)[:, :2], np.argsort(x, 1)[:, :2]]
    yield case("TopK", 11, [x, i64([2])], least, axis=1, largest=0)
    normalized = (x - x.mean(2, keepdims=True)) / x.std(2, keepdims=True)
    yield case("MeanVarianceNormalization", 13, [x], [normalized.astype(f32)], axes=[2])
    target = np.array([[0, 2, 1, 1], [2, 2, 0, 1]], i32)
    logs = x - np.log(np.exp(x).sum(1, keepdims=True))
    loss = -np.take_along_axis(logs, target[:, None].astype(i64), 1).sum()
    yield case("SoftmaxCrossEntropyLoss", 12, [x, target], [f32(loss), logs], reduction="sum")


def products():
    a, b, c = normal(3, 5), normal(4, 5), normal(4)
    yield case("Gemm", 11, [a, b], [a @ b.T * f32(0.5)], transB=1, alpha=0.5)
    yield case("Gemm", 11, [a, b, c], [a @ b.T + c], transB=1)
    scaled = f32(0.5) * (a @ b.T) + 2 * c[0]
    yield case("Gemm", 13, [a.T, b, c[:1]], [scaled], transA=1, transB=1, alpha=0.5, beta=2.0)
    yield case("Einsum", 12, [a, b], [a @ b.T], equation=" ij , kj -> i k ")
    whole = np.array([[1, 2], [3, -4]], i32)
    yield case("MatMul", 13, [whole, whole], [whole @ whole])
    for n in (1, 2, 5):
        x = normal(2, 3, n, n).astype(f64)
        yield case("Det", 11, [x], [np.linalg.det(x)])
    yield case("Det", 11, [np.array([[0.0, 1, 2], [0, 3, 4], [0, 5, 6]])], [0.0])
    yield case("Det", 11, [np.array([[0.0, 1], [1, 0]])], [-1.0])
    yield case("Det", 11, [np.zeros((2, 0, 0))], [np.ones(2)])


def signals():
    for n, parts in ((1, 1), (7, 1), (8, 1), (7, 2), (8, 2)):
        x = normal(2, n, 3, parts)
        z = x[..., 0] + (1j * x[..., 1] if parts == 2 else 0)
        for length in (n, n + 3, max(1, n - 2)):
            spectrum = np.fft.fft(z, length, axis=1)
            yield case("DFT", 17, [x, i64(length)], [complex_pairs(spectrum)])
            inverse = complex_pairs(np.fft.ifft(z, length, axis=1))
            yield case("DFT", 17, [x, i64(length)], [inverse], axis=-3, inverse=1)
            if parts == 1:
                half = complex_pairs(spectrum[:, : length // 2 + 1])
                yield case("DFT", 17, [x, i64(length)], [half], onesided=1)
    for parts in (1, 2):
        x, window = normal(2, 30, parts), normal(7)
        z = x[..., 0] + (1j * x[..., 1] if parts == 2 else 0)
        frames = np.stack([z[:, 4 * t : 4 * t + 7] for t in range(6)], 1) * window
        yield case("STFT", 17, [x, i64(4), window, i64(7)], [complex_pairs(np.fft.fft(frames))], onesided=0)
    for n, periodic in ((8, 1), (9, 0)):
        angle = np.pi / 4 * np.arange(n)
        for name, a, b, c in (("Hann", 0.5, 0.5, 0), ("Hamming", 25 / 46, 21 / 46, 0), ("Blackman", 0.42, 0.5, 0.08)):
            window = a - b * np.cos(angle) + c * np.cos(2 * angle)
            yield case(f"{name}Window", 17, [i64(n)], [window], periodic=periodic, output_datatype=11)
    for start, limit, step, dtype in ((10, 4, -2, i64), (0, 10, 3, i32), (5, 1, 1, i64), (1, 2, 0.25, f64)):
        result = np.arange(start, limit, step).astype(dtype)
        yield case("Range", 11, [dtype(start), dtype(limit), dtype(step)], [result])


def cases():
    for subject in (flattened, elementwise, reductions, products, signals):
        yield from subject()


def refused():
    x, z, one = normal(2, 3), normal(2, 8, 2), i64(1)

    def refusal(message, operator, inputs, **attributes):
        inputs = arrays(inputs)
        return f"{operator}: {message}", model_of(operator, 17, inputs, [x], attributes), inputs, message

    yield refusal("its inputs must be uint8", "BitShift", [one, one], direction="LEFT")
    yield refusal("its direction must be LEFT or RIGHT; got 'UP'", "BitShift", [u8([1]), u8([1])], direction="UP")
    yield refusal("its attribute to is missing", "Cast", [x])
    yield refusal("got STRING of Cast node", "Cast", [x], to=8)
    yield refusal("its attribute axis has a wrong type", "Softmax", [x], axis="1")
    yield refusal("OnnxModel: Softmax node 'out0': softmax: axis must lie in", "Softmax", [x], axis=2)
    yield refusal("its slope must broadcast to the input (2, 3); got (4, 2, 3)", "PRelu", [x, normal(4, 2, 3)])
    yield refusal("its input 1 must be one integer; got (2,)", "CumSum", [x, i64([0, 1])])
    yield refusal("its factors must be matrices; got (2, 8, 2) and (2, 3)", "Gemm", [z, x])
    yield refusal("its input must be square matrices; got (2, 3)", "Det", [x])
    bounds = [f32(0), f32(1)]
    yield refusal("its integers must be positive; got 1, 0 and 1", "MelWeightMatrix", [one, i64(0), one, *bounds])
    yield refusal("its input's last axis must be of 1 or 2 elements", "DFT", [x])
    yield refusal("onesided must be 0 for complex numbers", "DFT", [z], onesided=1)
    yield refusal("onesided must be 0 for an inverse transform", "DFT", [z[..., :1]], onesided=1, inverse=1)
    yield refusal("its axis must not be the last", "DFT", [z], axis=2)
    yield refusal("its length must be positive; got 0", "DFT", [z, i64(0)])
    yield refusal("it must have a window or a frame_length", "STFT", [z[..., :1], one])
    yield refusal("its window must have the frame's length 4; got (3,)", "STFT", [z[..., :1], one, normal(3), i64(4)])
