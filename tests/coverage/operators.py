"""The operators of src/ in PyTorch, each a function of the parameters in their order.

What several of them need to know of their parameters beside the shape is in KINDS: `positive` numbers,
`ids` below a number of rows, which a dimension gives.
"""

import torch
import torch.nn.functional as F


def rope(x, c, s):
    half = x.shape[1] // 2
    a, b = x[:, :half], x[:, half:]
    return torch.cat([a * c - b * s, b * c + a * s], 1)


def rope_of_pairs(x, c, s):
    a, b = x[:, ::2], x[:, 1::2]
    return torch.stack((a * c - b * s, b * c + a * s), 2).flatten(1)


def quantize(x):
    scale = x.abs().amax(1) / 127
    return torch.clamp(torch.round(x / scale.clamp(min=1e-12)[:, None]), -127, 127).to(torch.int8), scale


def gated_twice(x):
    s = torch.sigmoid(x)
    return s * x + s


def swiglu(x):
    a, b = x.chunk(2, 1)
    return F.silu(a) * b


def transposed_phases(x, w):
    y = F.conv_transpose2d(x, w, stride=2, padding=1)
    n, o, h, v = y.shape
    return y.reshape(n, o, h // 2, 2, v // 2, 2)


def by_groups(x, w):
    return F.conv2d(x, w, padding=1, groups=x.shape[1] // w.shape[1])


def grouped(x, w):
    n, g, c, h, v = x.shape
    y = F.conv2d(x.reshape(n, g * c, h, v), w.reshape(-1, c, 3, 3), padding=1, groups=g)
    return y.reshape(n, g, -1, h, v)


def triplet(a, p, n):
    near, far = F.pairwise_distance(a, p), F.pairwise_distance(a, n)
    return torch.clamp(near - far + 1, min=0).mean().reshape(1)


def states(first, steps, following):
    """The states that `following` makes, each of the one before and an index."""
    found = [first]
    for step in range(steps):
        found.append(following(found[-1], step))
    return found[1:]


def linear_recurrence(a, x):
    a = torch.sigmoid(a)
    steps = states(torch.zeros_like(x[:, 0]), x.shape[1], lambda h, s: a[:, s] * h + x[:, s])
    return torch.stack(steps, 1)


def moving_average(x):
    return torch.stack(states(x[:, 0], x.shape[1], lambda h, k: 0.9 * h + 0.1 * x[:, k]), 1)


def last_state(g, x, h0):
    gate, new = torch.sigmoid(g), torch.tanh(x)
    return states(h0, x.shape[1], lambda h, t: gate[:, t] * new[:, t] + (1 - gate[:, t]) * h)[-1]


def selective_scan(x, dt, a, b, c):
    decay = torch.exp(-dt.abs()[..., None] * a.abs())
    added = (dt * x)[..., None] * b[:, :, None]
    first = torch.zeros_like(added[:, 0])
    steps = states(first, x.shape[1], lambda h, s: decay[:, s] * h + added[:, s])
    return (torch.stack(steps, 1) * c[:, :, None]).sum(3)


def one(value):
    return value.reshape(1)


def upsample_by_neighbors(x):
    """Two neighbors of each element, as the program has it: not the four of `F.interpolate`."""
    n, c, h, w = x.shape
    a = x.repeat_interleave(2, 2).repeat_interleave(2, 3)
    beside, above = a.clone(), a.clone()
    beside[..., 2::2], beside[..., 1:-1:2] = a[..., 1:-1:2], a[..., 2::2]
    above[..., 2::2, :], above[..., 1:-1:2, :] = a[..., 1:-1:2, :], a[..., 2::2, :]
    return 0.5 * a + 0.25 * beside + 0.25 * above


OPERATORS = {
    # pointwise
    "gated_twice": gated_twice,
    "swiglu": swiglu,
    "less": lambda x, y: x < y,
    "gelu_gate": lambda x, y: F.gelu(x) * y,
    "softsign": F.softsign,
    "elu": F.elu,
    "selu": lambda x: torch.where(x > 0, 1.0507 * x, 1.7581 * torch.expm1(x)),
    "hardtanh": F.hardtanh,
    "tanh_of": torch.tanh,
    "softplus_of": F.softplus,
    "scalar_mul": lambda x, s: x * s,
    "diag_mul": lambda a, b: a[:, None] * b,
    "outer": torch.outer,
    "relu_of": torch.relu,
    "sigmoid_of": torch.sigmoid,
    "silu_of": F.silu,
    "gelu_of": F.gelu,
    "gelu_by_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "leaky": lambda x: F.leaky_relu(x, 0.1),
    "hardswish_of": F.hardswish,
    "hardsigmoid_of": F.hardsigmoid,
    "mish_of": F.mish,
    "logarithm": torch.log,
    "square_root": torch.sqrt,
    "choose": torch.where,
    "add_rows": torch.add,
    "greater_of": torch.maximum,
    # norms
    "softmax_first": lambda x: torch.softmax(x, 0),
    "batch_norm_train": lambda x, g, b: F.batch_norm(x, None, None, g, b, True),
    "batch_norm_infer": lambda x, m, v, g, b: F.batch_norm(x, m, v, g, b),
    "group_norm": lambda x, g, b: F.group_norm(
        x.flatten(1, 2), x.shape[1], g.flatten(), b.flatten()
    ).reshape(x.shape),
    "instance_norm": F.instance_norm,
    "layer_norm": lambda x, g, b: F.layer_norm(x, x.shape[1:], g, b),
    "l2_norm": F.normalize,
    "log_softmax": lambda x: torch.log_softmax(x, 1),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[1:], eps=1e-5),
    "rms_norm_channels": lambda x: x / torch.sqrt((x * x).mean(1, keepdim=True) + 1e-5),
    "frobenius": lambda x: x / torch.norm(x),
    "l1_norm": lambda x: x / x.abs().sum(1, keepdim=True),
    # reductions
    "sum_first": lambda x: x.sum(0),
    "sum_middle": lambda x: x.sum(1),
    "sum_all": lambda x: one(x.sum()),
    "sum_2d_all": lambda x: one(x.sum()),
    "argmax_rows": lambda x: x.argmax(1),
    "argmax_cols": lambda x: x.argmax(0),
    "variance": lambda x: x.var(1, unbiased=False),
    "logsumexp": lambda x: torch.logsumexp(x, 1),
    "logsumexp_at_once": lambda x: torch.logsumexp(x, 1),
    "argmax_of_all": lambda x: x.argmax().reshape(1),
    "max_mid": lambda x: x.amax(1),
    "prod_mid": lambda x: x.prod(1),
    "argmin_mid": lambda x: x.argmin(1),
    "min_last": lambda x: x.amin(2),
    "sum_last": lambda x: x.sum(1),
    "mean_outer": lambda x: x.mean((0, 2)),
    "any_of": lambda x: x.any(1),
    "norm_first": lambda x: torch.linalg.vector_norm(x, dim=0),
    # losses
    "cross_entropy": lambda x, y: F.cross_entropy(x, y, reduction="none"),
    "mse": lambda x, y: ((x - y) ** 2).mean(1),
    "cosine": lambda x, y: F.cosine_similarity(x, y),
    "huber": lambda x, y: one(F.smooth_l1_loss(x, y)),
    "kl_div": lambda x, y: one(F.kl_div(x, y, reduction="batchmean")),
    "triplet": triplet,
    "hinge": lambda x, y: one(torch.clamp(1 - x * y, min=0).mean()),
    "binary_cross_entropy": lambda x, y: one(F.binary_cross_entropy_with_logits(x, y)),
    "l1_loss": lambda x, y: one(F.l1_loss(x, y)),
    # scans
    "cumsum": lambda x: x.cumsum(1),
    "cumsum_first": lambda x: x.cumsum(0),
    "cumprod": lambda x: x.cumprod(1),
    "reverse_cumsum": lambda x: x.flip(1).cumsum(1).flip(1),
    "exclusive_cumsum": lambda x: F.pad(x.cumsum(1)[:, :-1], (1, 0)),
    "masked_cumsum": lambda x, m: (x * m).cumsum(1),
    "linear_recurrence": linear_recurrence,
    "moving_average": moving_average,
    "last_state": last_state,
    "selective_scan": selective_scan,
    # layout
    "transpose": lambda x: x.t().contiguous(),
    "nchw_to_nhwc": lambda x: x.permute(0, 2, 3, 1).contiguous(),
    "split_heads": lambda x: x.unflatten(2, (12, -1)).permute(0, 2, 1, 3).contiguous(),
    "flip": lambda x: x.flip(1),
    "roll": lambda x: x.roll(-37, 1),
    "tril": torch.tril,
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "upsample_nearest": lambda x: F.interpolate(x, scale_factor=2),
    "upsample_by_neighbors": upsample_by_neighbors,
    "rope": rope,
    "rope_of_pairs": rope_of_pairs,
    "upsample_by_3": lambda x: F.interpolate(x, scale_factor=3),
    "interleave": lambda x, y: torch.stack((x, y), 2).flatten(1),
    "concatenate": lambda x, y: torch.cat([x, y], 1),
    "pad_zeros": lambda x: F.pad(x, (1, 1, 1, 1)),
    "slice_last": lambda x: x[:, 32:-32].contiguous(),
    "every_other": lambda x: x[:, ::2].contiguous(),
    "repeat_heads": lambda x: x.repeat_interleave(4, 1),
    "triu": torch.triu,
    "flip_first": lambda x: x.flip(0),
    # lookups
    "embedding": lambda ids, t: F.embedding(ids, t),
    "embedding_bag": lambda ids, t: F.embedding_bag(ids, t, mode="mean"),
    "one_hot": lambda ids, v: F.one_hot(ids, v).float(),
    "pick_one": lambda x, ids: x.gather(1, ids[:, None])[:, 0],
    "gather_first": lambda ids, x: x[ids],
    # products
    "matvec": lambda a, x: a @ x,
    "vecmat": lambda a, x: x @ a,
    "matmul_nn": lambda a, b: a @ b,
    "matmul_nt": lambda a, b: a @ b.t(),
    "matmul_tn": lambda a, b: a.t() @ b,
    "matmul_tt": lambda a, b: a.t() @ b.t(),
    "tall_skinny": lambda a, b: a @ b,
    "small_k": lambda a, b: a @ b,
    "large_k": lambda a, b: a @ b,
    "irregular": lambda a, b: a @ b,
    "batched_small": torch.bmm,
    "batched": torch.bmm,
    "matmul_4d": lambda a, b: a @ b,
    "matmul_f64": lambda a, b: a @ b,
    "cdist": lambda x, y: torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist"),
    "bilinear": lambda x, y, w: F.bilinear(x, y, w),
    "triangular": lambda a, b: a.tril() @ b,
    "upper": lambda a, b: a.triu() @ b.triu(),
    "lower_lower": lambda a, b: a.tril() @ b.tril(),
    "linear_gelu": lambda x, w, b: F.gelu(F.linear(x, w, b)),
    "linear_of_gelu": lambda x, w: F.linear(F.gelu(x), w),
    "lower_factor": lambda a, b: a.tril() @ b,
    "row_products": lambda x, y: (x * y).sum(1),
    # attention
    "attention": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.125),
    "causal_attention": lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, is_causal=True, scale=0.125
    ),
    # convolutions
    "conv3x3": lambda x, w: F.conv2d(x, w, padding=1),
    "depthwise": lambda x, w: F.conv2d(x, w[:, None], padding=1, groups=x.shape[1]),
    "grouped": grouped,
    "grouped_flat": by_groups,
    "conv1d": lambda x, w: F.conv1d(x, w, padding=2),
    "conv3d": lambda x, w: F.conv3d(x, w, padding=1),
    "dilated": lambda x, w: F.conv2d(x, w, padding=2, dilation=2),
    "conv7x7": lambda x, w: F.conv2d(x, w, stride=2, padding=3),
    "conv3x5": F.conv2d,
    "conv1x1": lambda x, w: F.conv2d(x, w[:, :, None, None]),
    "conv1d_strided_dilated": lambda x, w: F.conv1d(x, w, stride=3, dilation=4),
    "conv3d_valid": F.conv3d,
    "depthwise5x5_by_2": lambda x, w: F.conv2d(
        x, w[:, None], stride=2, padding=2, groups=x.shape[1]
    ),
    "conv_of_silu": lambda x, w: F.conv2d(F.silu(x), w),
    # transposed convolutions
    "transposed_plain": lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1),
    "transposed_phases": transposed_phases,
    "transposed_4x4": lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1),
    "transposed_3x3": lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1),
    "transposed_3x3_plain": lambda x, w: F.conv_transpose2d(
        x, w, stride=2, padding=1, output_padding=1
    ),
    "transposed_2x2": lambda x, w: F.conv_transpose2d(x, w, stride=2),
    "transposed_1d_by_8": lambda x, w: F.conv_transpose1d(x, w, stride=8, padding=4),
    "transposed_3d": lambda x, w: F.conv_transpose3d(x, w, stride=2),
    "transposed_depthwise": lambda x, w: F.conv_transpose2d(
        x, w[:, None], stride=2, padding=1, groups=x.shape[1]
    ),
    "transposed_groups": lambda x, w: F.conv_transpose2d(
        x, w, stride=2, padding=1, groups=x.shape[1] // 16
    ),
    "transposed_by_1": F.conv_transpose2d,
    "transposed_by_3": lambda x, w: F.conv_transpose2d(x, w, stride=3),
    "transposed_3d_3x3x3": lambda x, w: F.conv_transpose3d(
        x, w, stride=2, padding=1, output_padding=1
    ),
    "transposed_dilated": lambda x, w: F.conv_transpose1d(x, w, stride=2, dilation=3),
    # pools
    "max_pool": lambda x: F.max_pool2d(x, 3, 2, 1),
    "avg_pool": lambda x: F.avg_pool2d(x, 2),
    "global_pool": lambda x: x.mean(2),
    "max_pool1d": lambda x: F.max_pool1d(x, 8, 4, 2),
    "max_pool3d": lambda x: F.max_pool3d(x, 3, 2, 1),
    "avg_pool3d": lambda x: F.avg_pool3d(x, 2),
    # types
    "u8_to_f32": lambda x: x.float() / 255,
    "i64_add": torch.add,
    "f64_exp": torch.exp,
    "f64_gelu": F.gelu,
    "f64_sin": torch.sin,
    "i8_relu": torch.relu,
    "matmul_i8": lambda a, b: (a.int() @ b.t().int()),
    "i8_add": torch.add,
    "softmax_f64": lambda x: torch.softmax(x, 1),
    "i64_sum": lambda x: x.sum(1),
    "i64_remainder": lambda a, b: torch.fmod(a * 31 + b, 1009),
    "mean_in_f64": lambda x: x.mean(1, dtype=torch.float64).float(),
    "quantize": quantize,
}

KINDS = {
    "batch_norm_infer": {"v": "positive"},
    "kl_div": {"y": "positive"},
    "logarithm": {"x": "positive"},
    "square_root": {"x": "positive"},
    "cumprod": {"x": "near_one"},
    "prod_mid": {"x": "near_one"},
    "cross_entropy": {"y": "V"},
    "embedding": {"ids": "V"},
    "embedding_bag": {"ids": "V"},
    "one_hot": {"ids": "V"},
    "pick_one": {"ids": "V"},
    "gather_first": {"ids": "V"},
}
