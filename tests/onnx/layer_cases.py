"""Cases beyond ONNX's backend tests, as further_cases: of shapes, indices and layers."""

import itertools

import numpy as np
from further_cases import arrays, case, f32, i32, i64, model_of, normal, u8


def shapes():
    x = normal(2, 3, 4)
    for start, end, step, result in (
        (-1, -9, -2, x[:, :, ::-2]),
        (2, 0, -1, x[:, :, 2:0:-1]),
        (-9, -9, -1, x[:, :, :1]),  # a start is clamped into the axis
        (3, -(2**63), -(2**63), x[:, :, 3:]),
        (1, 2**63 - 1, 2**63 - 1, x[:, :, 1:2]),
        (3, 1, 1, x[:, :, :0]),
    ):
        yield case("Slice", 13, [x, i64([start]), i64([end]), i64([-1]), i64([step])], [result])
    yield case("Split", 11, [x], [x[:, :1], x[:, 1:]], axis=1, split=[1, 2])
    yield case("Squeeze", 11, [x[None, :, None]], [x], axes=[0, -3])
    yield case("Squeeze", 13, [x[:1]], [x[0]])
    yield case("Unsqueeze", 11, [x], [x[None, ..., None]], axes=[-1, 0])
    cut = np.pad(x[:, 1:, :2], [(0, 1), (0, 0), (1, 0)], constant_values=7)
    yield case("Pad", 13, [x, i64([0, -1, 1, 1, 0, -2]), f32(7)], [cut])
    edge = np.pad(x, [(1, 0), (0, 2), (3, 1)], mode="edge")
    yield case("Pad", 11, [x, i64([1, 0, 3, 0, 2, 1])], [edge], mode="edge")
    yield case("EyeLike", 9, [x[0]], [np.eye(3, 4, -2, dtype=f32)], k=-2)
    yield case("Shape", 11, [x], [i64([2, 3, 4])])
    rearranged = x[:, :2].reshape(2, 1, 2, 2, 2).swapaxes(2, 3).reshape(2, 1, 2, 4)[:, :, :, :2]
    yield case("Reshape", 14, [rearranged, i64([0, -1])], [rearranged.reshape(2, 4)])


def indices():
    x = normal(3, 4, 5)
    at = np.array([[-1, 0], [2, -3]], i32)
    yield case("Gather", 11, [x, at], [x[:, at]], axis=1)
    yield case("Gather", 13, [x, i64(-2)], [x[..., -2]], axis=-1)
    places = np.array([[[1, -1]], [[0, 2]], [[-3, 0]]], i64)
    found = np.stack([x[n][tuple(places[n].T)] for n in range(3)])
    yield case("GatherND", 12, [x, places], [found], batch_dims=1)
    yield case("GatherND", 13, [x, i64([1, -1])], [x[1, -1]])
    rows, factors = np.array([[1, -1], [0, 0], [1, 3], [1, 3]], i64), normal(4, 5)
    for reduction, update in (("add", np.add), ("mul", np.multiply)):
        y = x.copy()
        for row, factor in zip(rows, factors):
            y[tuple(row)] = update(y[tuple(row)], factor)
        yield case("ScatterND", 16, [x, rows, factors], [y], reduction=reduction)
    columns, factors = np.array([[0, -1, 4, 0], [2, 2, 2, 2]], i64), normal(2, 4)
    y = x[0].copy()
    for i, j in np.ndindex(2, 4):
        y[i, columns[i, j]] *= factors[i, j]
    yield case("ScatterElements", 16, [x[0], columns, factors], [y], axis=1, reduction="mul")
    hot = np.array([[5, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 5]], f32)
    yield case("OneHot", 11, [f32([0, 4, -1]), f32(4), f32([1, 5])], [hot])
    rows = np.array([[3, 1], [2, 0], [3, 1], [2, 0], [1, 1]], f32)
    results = [rows[[0, 1, 4]], i64([0, 1, 4]), i64([0, 1, 0, 1, 2]), i64([2, 2, 1])]
    yield case("Unique", 11, [rows], results, axis=0, sorted=0)
    reverse = [np.concatenate((x[n, :, :k][:, ::-1], x[n, :, k:]), 1) for n, k in enumerate((1, 3, 5))]
    yield case("ReverseSequence", 10, [x, i64([1, 3, 5])], [np.stack(reverse)], time_axis=2, batch_axis=0)
    yield case("Compress", 11, [x, np.array([False, True])], [x.reshape(-1)[1:2]])


def resizing():
    x = normal(2, 3, 9, 6)
    third, pixels = f32([1, 1, 1 / 3, 1]), np.arange(18).astype(u8).reshape(1, 1, 3, 6)
    asymmetric = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    yield case("Resize", 11, [x, f32([]), third], [x[:, :, ::3]], **asymmetric)
    yield case("Resize", 13, [pixels, None, f32([1, 1, 2, 2])], [pixels.repeat(2, 2).repeat(2, 3)], **asymmetric)
    yield case("Resize", 13, [x, None, None, i64([2, 3, 18, 12])], [x.repeat(2, 2).repeat(2, 3)])
    middles = (x[:, :, ::2][:, :, :4] + x[:, :, 1::2]) / 2
    yield case("Resize", 13, [x[:, :, :8], None, None, i64([2, 3, 4, 6])], [middles], mode="linear")
    signal = x[0, :, 0]
    doubled = np.stack((signal, (signal + np.append(signal[:, 1:], signal[:, -1:], 1)) / 2), 2).reshape(3, 12)
    linear = {"mode": "linear", "coordinate_transformation_mode": "asymmetric"}
    yield case("Resize", 13, [signal, None, f32([1, 2])], [doubled], **linear)
    crop = {"mode": "nearest", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 9.0}
    whole = np.concatenate((signal[:, [0, 5]], np.full((3, 1), 9, f32)), 1)
    yield case("Resize", 13, [signal, f32([0, 0, 1, 2]), None, i64([3, 3])], [whole], **crop)
    yield case("Upsample", 9, [x, f32([1, 1, 1, 3])], [x.repeat(3, 3)])


def correlated(x, w, stride, dilation, before, after, groups=1):
    x = np.pad(x, [(0, 0), (0, 0), *zip(before, after)])
    ends = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], w.shape[2:], stride, dilation)]
    y = np.zeros((x.shape[0], w.shape[0], *ends))
    for n, o, *at in np.ndindex(*y.shape):
        taps = tuple(slice(a * s, a * s + d * k, d) for a, s, d, k in zip(at, stride, dilation, w.shape[2:]))
        first = o // (w.shape[0] // groups) * w.shape[1]
        y[(n, o, *at)] = (x[(n, slice(first, first + w.shape[1]), *taps)] * w[o]).sum()
    return y


def convolutions():
    x, w, b = normal(2, 4, 7, 6), normal(6, 2, 3, 2), normal(6)
    y = correlated(x, w, (2, 1), (1, 2), (0, 2), (1, 1), 2) + b[:, None, None]
    yield case("Conv", 11, [x, w, b], [y.astype(f32)], group=2, strides=[2, 1], dilations=[1, 2], pads=[0, 2, 1, 1])
    lower = correlated(x, w[:, :, :, :1], (2, 3), (1, 1), (1, 0), (1, 0), 2)
    yield case("Conv", 11, [x, w[:, :, :, :1]], [lower.astype(f32)], group=2, strides=[2, 3], auto_pad="SAME_LOWER")
    signal = correlated(x[:, :2, 0], w[:, :, 0], (1,), (1,), (0,), (1,))
    yield case("Conv", 11, [x[:, :2, 0], w[:, :, 0]], [signal.astype(f32)], auto_pad="SAME_UPPER")
    # A transposed convolution is a convolution of the input with zeros between its elements.
    w, b, spread = normal(4, 3, 3, 2), normal(3), np.zeros((2, 4, 13, 6), f32)
    spread[:, :, ::2] = x
    flipped = w[:, :, ::-1, ::-1].swapaxes(0, 1)
    full = correlated(spread, flipped, (1, 1), (1, 1), (2, 1), (2, 1)) + b[:, None, None]
    cut = full[:, :, :-1, 1:].astype(f32)
    yield case("ConvTranspose", 11, [x, w, b], [cut], strides=[2, 1], pads=[0, 1, 1, 0])
    extended = np.concatenate((full, np.broadcast_to(b[:, None, None], (2, 3, 1, 7))), 2).astype(f32)
    yield case("ConvTranspose", 11, [x, w, b], [extended], strides=[2, 1], output_padding=[1, 0])
    yield case("ConvTranspose", 11, [x, w, b], [extended[:, :, :, 1:]], strides=[2, 1], output_shape=[16, 6])
    yield case("ConvTranspose", 11, [x, w, b], [full[:, :, 1:, 1:].astype(f32)], strides=[2, 1], auto_pad="SAME_LOWER")
    volume, w, b = normal(1, 2, 5, 4, 6), normal(4, 1, 3, 2, 3), normal(4)
    steps = {"strides": [2, 1, 2], "dilations": [1, 2, 1], "group": 2}
    for pads in ([2, 1, 0, 0, 1, 0], [1, 0, 1, 1, 0, 1], [0, 1, 0, 1, 0, 2]):  # causal, on both sides, unlike
        y = correlated(volume, w, (2, 1, 2), (1, 2, 1), pads[:3], pads[3:], 2) + b[:, None, None, None]
        yield case("Conv", 11, [volume, w, b], [y.astype(f32)], pads=pads, **steps)
    w, b, spread = normal(2, 3, 2, 3, 2), normal(3), np.zeros((1, 2, 9, 4, 6), f32)
    spread[:, :, ::2] = volume
    flipped = w[:, :, ::-1, ::-1, ::-1].swapaxes(0, 1)
    full = correlated(spread, flipped, (1, 1, 1), (1, 1, 1), (1, 2, 1), (1, 2, 1)) + b[:, None, None, None]
    cut = full[:, :, 1:, :-1, 1:].astype(f32)
    yield case("ConvTranspose", 11, [volume, w, b], [cut], strides=[2, 1, 1], pads=[1, 0, 1, 0, 1, 0])
    even = full[:, :, 1:-1, :, 1:-1].astype(f32)
    yield case("ConvTranspose", 11, [volume, w, b], [even], strides=[2, 1, 1], pads=[1, 0, 1, 1, 0, 1])


def pooled(x, kernel, stride, before, ends, reduce):
    """Of windows (elements, their places in x), without padding."""
    results = np.zeros((*x.shape[:2], *ends))
    places = np.arange(x.size).reshape(x.shape)
    for n, c, *at in np.ndindex(*results.shape):
        firsts = [a * s - p for a, s, p in zip(at, stride, before)]
        window = tuple(slice(max(f, 0), f + k) for f, k in zip(firsts, kernel))
        results[(n, c, *at)] = reduce(x[(n, c, *window)].ravel(), places[(n, c, *window)].ravel())
    return results


def pooling():
    x = normal(2, 2, 7, 8)
    geometry = ((3, 2), (2, 3), (0, 1), (3, 3))
    attributes = {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [0, 1, 1, 0]}
    top = pooled(x, *geometry, lambda window, _: window.max()).astype(f32)
    at = pooled(x, *geometry, lambda window, places: places[window.argmax()]).astype(i64)
    by_columns = at // 56 * 56 + at % 8 * 7 + at % 56 // 8
    yield case("MaxPool", 12, [x], [top, at], **attributes)
    yield case("MaxPool", 12, [x], [top, by_columns], storage_order=1, **attributes)
    whole = np.arange(112, dtype=u8).reshape(1, 2, 7, 8)
    top = pooled(whole, *geometry, lambda window, _: window.max()).astype(u8)
    yield case("MaxPool", 12, [whole], [top], **attributes)
    mean = pooled(x, *geometry, lambda window, _: window.mean()).astype(f32)
    yield case("AveragePool", 11, [x], [mean], **attributes)
    sums = pooled(x, *geometry, lambda window, _: window.sum()).astype(f32)
    yield case("AveragePool", 11, [x], [sums / f32(6)], count_include_pad=1, **attributes)
    # Over the first of three axes, as PyTorch exports means over channels.
    rows = np.pad(x[:, :, :, None], [(0, 0), (0, 0), (1, 0), (0, 0), (0, 0)])
    mean = (rows[:, :, :-1:2] + rows[:, :, 1::2]) / 2
    deep = {"kernel_shape": [2, 1, 1], "strides": [2, 1, 1], "pads": [1, 0, 0, 0, 0, 0], "count_include_pad": 1}
    yield case("AveragePool", 13, [x[:, :, :, None]], [mean], **deep)
    norm = pooled(x, *geometry, lambda window, _: (np.abs(window) ** 3).sum() ** (1 / 3)).astype(f32)
    yield case("LpPool", 11, [x], [norm], p=3, **attributes)
    # Volumes, with unlike padding and with padding that the library's pooling has.
    volume = normal(2, 2, 5, 4, 6)
    for before, after, ends in (((1, 0, 1), (0, 1, 1), (3, 2, 3)), ((1, 0, 1), (1, 0, 1), (3, 1, 3))):
        geometry = ((2, 3, 2), (2, 2, 3), before, ends)
        attributes = {"kernel_shape": [2, 3, 2], "strides": [2, 2, 3], "pads": [*before, *after]}
        top = pooled(volume, *geometry, lambda window, _: window.max()).astype(f32)
        at = pooled(volume, *geometry, lambda window, places: places[window.argmax()]).astype(i64)
        plane, z, y, column = at // 120, at % 120 // 24, at % 24 // 6, at % 6
        yield case("MaxPool", 12, [volume], [top, at], **attributes)
        by_columns = plane * 120 + column * 20 + y * 5 + z
        yield case("MaxPool", 12, [volume], [top, by_columns], storage_order=1, **attributes)
        mean = pooled(volume, *geometry, lambda window, _: window.mean()).astype(f32)
        yield case("AveragePool", 11, [volume], [mean], **attributes)
        sums = pooled(volume, *geometry, lambda window, _: window.sum()).astype(f32)
        yield case("AveragePool", 11, [volume], [sums / f32(12)], count_include_pad=1, **attributes)
        norm = pooled(volume, *geometry, lambda window, _: np.sqrt((window**2).sum())).astype(f32)
        yield case("LpPool", 11, [volume], [norm], **attributes)
    # Windows of ceil mode, whose last one reaches beyond the pads, and is not counted there.
    attributes = {"kernel_shape": [3], "strides": [2], "pads": [1, 0], "ceil_mode": 1}
    signal, geometry = x[:, :, 0], ((3,), (2,), (1,), (4,))
    mean = pooled(signal[:, :, :7], *geometry, lambda window, _: window.mean()).astype(f32)
    yield case("AveragePool", 11, [signal[:, :, :7]], [mean], **attributes)
    top = pooled(signal, *geometry, lambda window, _: window.max()).astype(f32)
    yield case("MaxPool", 11, [signal], [top], **attributes)
    yield case("GlobalLpPool", 2, [x], [np.sqrt((x**2).sum((2, 3), keepdims=True))])
    back = f32([[[x[0, 0, 0, 1], 0, 0, x[0, 0, 0, 0]]]])
    yield case("MaxUnpool", 11, [x[:1, :1, 0, :2], i64([[[3, 0]]])], [back], kernel_shape=[2], strides=[2])
    spread = np.zeros((1, 1, 2, 2, 2), f32)
    spread[0, 0, 1, 0, 1] = 3
    one = f32([3]).reshape(1, 1, 1, 1, 1)
    yield case("MaxUnpool", 11, [one, i64([5]).reshape(one.shape)], [spread], kernel_shape=[2, 2, 2], strides=[2, 2, 2])


def normalisations():
    x, w, b = normal(2, 4, 3, 5), normal(4), normal(4)
    square_sum = sum(np.pad(x**2, [(0, 0), (1, 2), (0, 0), (0, 0)])[:, k : k + 4] for k in range(4))
    response = (x / (2 + 0.1 * square_sum) ** 0.6).astype(f32)
    yield case("LRN", 13, [x], [response], size=4, alpha=0.4, beta=0.6, bias=2.0)
    column, row = w[:, None, None], b[:, None, None]
    mean, variance = normal(4), np.abs(normal(4))
    y = (x - mean[:, None, None]) / np.sqrt(variance[:, None, None] + 1e-3) * column + row
    yield case("BatchNormalization", 11, [x, w, b, mean, variance], [y.astype(f32)], epsilon=1e-3)
    own, spread = x.mean((2, 3), keepdims=True), x.var((2, 3), keepdims=True)
    y = (x - own) / np.sqrt(spread + 1e-3) * column + row
    yield case("InstanceNormalization", 6, [x, w, b], [y.astype(f32)], epsilon=1e-3)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def recurrence(gates, step, x, w, r, b, lengths, states):
    """Both directions of a layer: step(inputs' part, state's part, r, its bias, states) gives the states behind."""
    size, outputs, last = r.shape[2], np.zeros((x.shape[0], 2, x.shape[1], r.shape[2])), []
    for d, n in itertools.product(range(2), range(x.shape[1])):
        now = [state[d, n] for state in states]
        order = range(lengths[n]) if d == 0 else range(lengths[n] - 1, -1, -1)
        for t in order:
            own = b[d, gates * size :].reshape(gates, size)
            given = (w[d] @ x[t, n] + b[d, : gates * size]).reshape(gates, size)
            now = step(given, r[d].reshape(gates, size, size), own, *now)
            outputs[t, d, n] = now[0]
        last.append(now)
    back = [np.stack([now[k] for now in last]).reshape(2, x.shape[1], size) for k in range(len(states))]
    return [y.astype(f32) for y in (outputs, *back)]


def recurrent_layers():
    lengths = np.array([4, 2, 3], i32)
    x, h, c, p = normal(4, 3, 2), normal(2, 3, 5), normal(2, 3, 5), normal(2, 15)
    shared = {"direction": "bidirectional", "hidden_size": 5}

    def operands(gates):
        return [x, normal(2, gates * 5, 2), normal(2, gates * 5, 5), normal(2, gates * 10)]

    rnn = operands(1)

    def rnn_step(g, r, b, h):
        return [np.clip(0.7 * np.clip(g + r @ h + b, -1, 1)[0] + 0.1, 0, 1)]

    results = recurrence(1, rnn_step, *rnn, lengths, [h])
    hard = {"activations": ["HardSigmoid"] * 2, "activation_alpha": [0.7] * 2, "activation_beta": [0.1] * 2}
    yield case("RNN", 14, [*rnn, lengths, h], results, clip=1.0, **hard, **shared)
    gru = operands(3)
    for linear_before_reset in (0, 1):

        def gru_step(g, r, b, h):
            update, reset = sigmoid(g[:2] + r[:2] @ h + b[:2])
            own = reset * (r[2] @ h + b[2]) if linear_before_reset else r[2] @ (reset * h) + b[2]
            return [(1 - update) * np.tanh(g[2] + own) + update * h]

        results = recurrence(3, gru_step, *gru, lengths, [h])
        yield case("GRU", 14, [*gru, lengths, h], results, linear_before_reset=linear_before_reset, **shared)
    lstm = operands(4)
    lstm[3][:] = lstm[3][:1]
    p[:] = p[:1]
    for input_forget in (0, 1):

        def lstm_step(g, r, b, h, c):
            i, o, f, new = g + r @ h + b
            peep_i, peep_o, peep_f = p[0].reshape(3, 5)
            i = sigmoid(i + peep_i * c)
            f = 1 - i if input_forget else sigmoid(f + peep_f * c)
            c = f * c + i * np.maximum(new, 0)
            return [sigmoid(o + peep_o * c) * np.tanh(c), c]

        results = recurrence(4, lstm_step, *lstm, lengths, [h, c])
        relu = ["Sigmoid", "Relu", "Tanh"] * 2
        inputs = [*lstm, lengths, h, c, p]
        yield case("LSTM", 14, inputs, results, input_forget=input_forget, activations=relu, **shared)
        by_batch = [results[0].transpose(2, 0, 1, 3), *(state.swapaxes(0, 1) for state in results[1:])]
        inputs = [x.swapaxes(0, 1), *lstm[1:], lengths, h.swapaxes(0, 1), c.swapaxes(0, 1), p]
        yield case("LSTM", 14, inputs, by_batch, layout=1, input_forget=input_forget, activations=relu, **shared)


def cases():
    for subject in (shapes, indices, resizing, convolutions, pooling, normalisations, recurrent_layers):
        yield from subject()


def refused():
    x, image, w = normal(2, 3), normal(1, 4, 5, 5), normal(2, 4, 3, 3)
    one, two, x_row = i64([1]), i64([1, 1]), i64([[0]])

    def refusal(message, operator, inputs, operator_set=16, outputs=1, **attributes):
        inputs = arrays(inputs)
        model = model_of(operator, operator_set, inputs, [x] * outputs, attributes)
        return f"{operator}: {message}", model, [given for given in inputs if given is not None], message

    yield refusal("its axes must differ", "Unsqueeze", [x, i64([0, -4])])
    yield refusal("its axis must be in [-2, 2); got 2", "Gather", [x, one], axis=2)
    yield refusal("it must have one value", "Constant", [], value_int=1, value_float=2.0)
    yield refusal("a 0 in the shape must stand for one of the input's extents", "Reshape", [x, i64([2, 3, 0])])
    yield refusal("its axes must have one element; got 1 of (2, 3)", "Squeeze", [x, one])
    yield refusal("it must have one repeat for each axis; got 1 for (2, 3)", "Tile", [x, one])
    yield refusal("its attribute axis is missing", "Concat", [x, x])
    yield refusal("its 2 outputs must divide the axis; got axis 1 of (2, 3)", "Split", [x], outputs=2, axis=1)
    yield refusal("its starts, ends, axes and steps must be as many; got 1, 2, 1 and 1", "Slice", [x, one, two])
    yield refusal("its steps must not be 0", "Slice", [x, one, one, one, i64([0])])
    yield refusal("its pads must be two for each axis; got 2 for (2, 3)", "Pad", [x, two])
    yield refusal("its mode must be constant, reflect or edge; got wrap", "Pad", [x, i64([0] * 4)], mode="wrap")
    yield refusal("its constant_value must be one number; got 2", "Pad", [x, i64([0] * 4), f32([1, 2])])
    yield refusal("its k must be one number; got 2", "Trilu", [x, two])
    yield refusal("its input must be a matrix; got (1, 4, 5, 5)", "EyeLike", [image])
    yield refusal("in blocks of 3; got (1, 4, 5, 5)", "DepthToSpace", [image], blocksize=3)
    yield refusal("in blocks of 0; got (1, 4, 5, 5)", "SpaceToDepth", [image], blocksize=0)
    yield refusal("its mode must be DCR or CRD; got RGB", "DepthToSpace", [image], blocksize=2, mode="RGB")
    yield refusal("its indices must be int64 or int32; got float32", "Gather", [x, x])
    places = i64([[0] * 3] * 2)
    yield refusal("input's axes from 1 on; got indices (2, 3), input (2, 3)", "GatherND", [x, places], batch_dims=1)
    yield refusal("the same 1 first extents; got (2, 3) and (3, 1)", "GatherND", [x, i64([[0]] * 3)], batch_dims=1)
    yield refusal("its reduction must be none, add or mul; got max", "ScatterND", [x, x_row, x[:1]], reduction="max")
    yield refusal("its updates must have the shape (1, 3); got (2, 3)", "ScatterND", [x, x_row, x])
    yield refusal("must have one shape; got (1, 1) and (2, 3)", "ScatterElements", [x, x_row, x])
    yield refusal("its depth must be one number from 0 on; got -1", "OneHot", [one, i64(-1), f32([0, 1])])
    yield refusal("its values must be two numbers; got (3,)", "OneHot", [one, i64(2), f32([0, 1, 2])])
    all_three = np.array([True] * 3)
    yield refusal("must be bool, of at most 2 elements; got bool (3,)", "Compress", [x, all_three], axis=0)
    yield refusal("it must have a length for each element of another axis", "ReverseSequence", [x, one])
    yield refusal("must be one of nearest, linear, cubic; got area", "Resize", [x, None, f32([2])], mode="area")
    yield refusal("it must have either scales or sizes", "Resize", [x])
    yield refusal("must fit the input's 2 axes; got 1 and 0 numbers", "Resize", [x, None, f32([2])])
    yield refusal("its scales must be positive; got 0", "Resize", [x, None, f32([1, 0])])
    yield refusal("its sizes must be positive; got 2, 0", "Resize", [x, None, None, i64([2, 0])])
    yield refusal("its input and result must have elements; got 3 to 0", "Resize", [x, None, f32([1, 0.1])])
    yield refusal("its input and weight must have as many axes, at least 3", "Conv", [image, w[0]])
    conv = ["Conv", [image, w]]
    yield refusal("its kernel_shape must be the weight's; got 2, 2 for (2, 4, 3, 3)", *conv, kernel_shape=[2, 2])
    yield refusal("its pads must be 4 numbers from 0 to 2^30 - 1; got -1, 0, 0, 0", *conv, pads=[-1, 0, 0, 0])
    yield refusal("its auto_pad must be NOTSET, SAME_UPPER, SAME_LOWER or VALID; got SAME", *conv, auto_pad="SAME")
    deep = [image[..., None, None], w[..., None, None]]
    volumes = "(N, C, L), (N, C, H, W) or (N, C, D, H, W); got (1, 4, 5, 5, 1, 1)"
    yield refusal(volumes, "Conv", deep)
    yield refusal(volumes, "AveragePool", [deep[0]], kernel_shape=[2, 1, 2, 1])
    yield refusal("its kernel_shape must be 2 numbers", "MaxPool", [image], kernel_shape=[2])
    yield refusal("its p must be positive; got 0", "LpPool", [image], kernel_shape=[2, 2], p=0)
    window, places = {"kernel_shape": [2, 2]}, np.arange(100).reshape(image.shape)
    yield refusal("its indices must be int64, of the input's shape (1, 4, 5, 5)", "MaxUnpool", [image, one], **window)
    yield refusal("its output_shape must have 4 extents; got 1", "MaxUnpool", [image, places, one], **window)
    negative = i64([1, 1, 1, -1])
    yield refusal("its output_shape must be positive", "MaxUnpool", [image, places, negative], **window)
    yield refusal("its input must be (N, C, ...); got (2, 3)", "GlobalMaxPool", [x])
    yield refusal("its stash_type must be 1, float32", "LayerNormalization", [x, x[0]], 17, stash_type=11)
    yield refusal("its size positive; got (2, 3), 0", "LRN", [x], size=0)
    sequence, weights = normal(2, 1, 3), [normal(1, 5, 3), normal(1, 5, 5)]
    rnn = ["RNN", [sequence, *weights]]
    yield refusal("its input and weights must have three axes", "RNN", [x, *weights])
    yield refusal("its hidden_size must be that of its weights; got 4", *rnn, hidden_size=4)
    yield refusal("its direction must be forward, reverse or bidirectional; got up", *rnn, direction="up")
    yield refusal("it must have 1 activations; got Tanh, Relu", *rnn, activations=["Tanh", "Relu"])
    yield refusal("its activations must be ONNX's; got Gelu", *rnn, activations=["Gelu"])
    yield refusal("its input 3 must have the shape (1, 10); got (1, 5)", "RNN", [sequence, *weights, normal(1, 5)])
