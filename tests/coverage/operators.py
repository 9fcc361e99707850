"""The operators of src/ in PyTorch, each a function of the parameters in their order.

What several of them need to know of their parameters beside the shape is in KINDS: `positive` numbers,
`ids` below a number of rows, which a dimension gives; `E / N` rises by that for each element.
"""

import math

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


def merged_heads(qkv, heads):
    q, k, v = qkv.reshape(qkv.shape[0], 3, heads, -1).permute(1, 2, 0, 3)
    o = F.scaled_dot_product_attention(q[None], k[None], v[None], scale=0.125)[0]
    return o.transpose(0, 1).flatten(1)


def haversine(a, b):
    up, across = torch.sin((a - 0.8) / 2), torch.sin((b - 0.1) / 2)
    near = up * up + math.cos(0.8) * torch.cos(a) * across * across
    return 2 * torch.asin(torch.sqrt(near.clamp(max=1)))


def triplet(a, p, n):
    near, far = F.pairwise_distance(a, p), F.pairwise_distance(a, n)
    return torch.clamp(near - far + 1, min=0).mean().reshape(1)


def added(shape, ids, x, dim=0):
    """Rows of a tensor of that shape, each the sum of those of `x` with its number."""
    return torch.zeros(shape, dtype=x.dtype).index_add(dim, ids, x)


def count(shape, ids):
    return added((shape,), ids.flatten(), torch.ones(ids.numel(), dtype=torch.int64))


def histograms(x, b):
    ids = torch.arange(len(x))[:, None] * b + x.long()
    return count(len(x) * b, ids).reshape(-1, b).int()


def csr_product(ptr, col, val, x):
    sparse = torch.sparse_csr_tensor(ptr, col, val, (ptr.shape[0] - 1, x.shape[0]))
    return sparse @ x


def greatest_of_segments(ptr, x):
    return torch.segment_reduce(x, "max", offsets=ptr, axis=0, unsafe=True)


def is_of_row(x, len):
    return torch.arange(x.shape[1])[None, :] < len[:, None]


def mean_of_padded(x, len):
    sums = torch.where(is_of_row(x, len)[:, :, None], x, 0.0).sum(1)
    return sums / len.clamp(min=1)[:, None]


def max_of_padded(x, len):
    return torch.where(is_of_row(x, len + 1)[:, :, None], x, -math.inf).amax(1)


def softmax_of_padded(x, len):
    return torch.where(is_of_row(x, len + 1), x, -math.inf).softmax(1)


def segment_mean(x, seg, s):
    n = count(s, seg).to(x.dtype)
    return added((s, x.shape[1]), seg, x) / n.clamp(min=1)[:, None]


def greatest_message(x, to, n):
    ids = to[:, None].expand_as(x)
    return torch.zeros(n, x.shape[1], dtype=x.dtype).scatter_reduce(0, ids, x, "amax")


def pillars(row, column, x, h, w):
    b, p, c = x.shape
    ids = (row.long() * w + column.long())[:, :, None].expand(b, p, c)
    return torch.zeros(b, h * w, c, dtype=x.dtype).scatter_add(1, ids, x).reshape(b, h, w, c)


def repetition_penalty(x, before, p):
    l = x.gather(1, before)
    return x.scatter(1, before, torch.where(l > 0, l / p, l * p))


def max_unpool(x, at, i):
    return torch.zeros(len(x), i, dtype=x.dtype).scatter_add(1, at, x)


def mean_of_tokens(x, mask):
    m = mask.to(x.dtype)
    return (x * m[:, :, None]).sum(1) / m.sum(1).clamp(min=1e-9)[:, None]


def rope_by_position(x, pos, theta):
    d = x.shape[2]
    pairs = torch.arange(d // 2, dtype=x.dtype)
    angle = pos.to(x.dtype)[:, None] * theta ** (2 * pairs / d)
    c, s, a, b = angle.cos(), angle.sin(), x[:, :, ::2], x[:, :, 1::2]
    return torch.stack((a * c - b * s, b * c + a * s), 3).flatten(2)


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


def nhwc(of_images):
    """An operator of images, for those whose channels are the last axis."""
    return lambda x, *w: of_images(x.permute(0, 3, 1, 2), *w).permute(0, 2, 3, 1)


def lstm_cell(x, h, c, wi, wh, b):
    gates = F.linear(x, wi.flatten(0, 1)) + F.linear(h, wh.flatten(0, 1)) + b.flatten()
    i, f, n, o = gates.chunk(4, 1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(n)
    return torch.sigmoid(o) * torch.tanh(c), c


def complex_product(a, b):
    return torch.view_as_real(torch.view_as_complex(a) @ torch.view_as_complex(b))


def group_norm_nhwc(x, w):
    y = F.group_norm(x.flatten(3).permute(0, 3, 1, 2), x.shape[3], w.flatten())
    return y.permute(0, 2, 3, 1).reshape(x.shape)


def window_partition(x):
    windows = x.unflatten(1, (-1, 7)).unflatten(3, (-1, 7))
    return windows.permute(0, 1, 3, 2, 4, 5).contiguous()


def relative_shift(x):
    h, t, _ = x.shape
    i = torch.arange(t)
    return x.gather(2, (i - i[:, None] + t - 1).expand(h, t, t))


def linear_attention(q, k, v):
    return torch.relu(q) @ (torch.relu(k).transpose(2, 3) @ v)


def decode_gqa(q, k, v):
    groups, _, d = k.shape
    y = F.scaled_dot_product_attention(q.view(groups, -1, d), k, v, scale=0.125)
    return y.reshape(q.shape)


def causal_conv(x, w, b):
    padded = F.pad(x.transpose(1, 2), (w.shape[1] - 1, 0))
    return F.silu(F.conv1d(padded, w[:, None], b, groups=x.shape[2])).transpose(1, 2)


def total_variation(x):
    across = (x[:, :, 1:] - x[:, :, :-1]).abs().sum((1, 2))
    return across + (x[:, 1:] - x[:, :-1]).abs().sum((1, 2))


SOBEL = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]])


def gru_cell(gi, gh, h):
    i, g = gi.chunk(3, 1), gh.chunk(3, 1)
    r, z = torch.sigmoid(i[0] + g[0]), torch.sigmoid(i[1] + g[1])
    n = torch.tanh(i[2] + r * g[2])
    return (1 - z) * n + z * h


def adam(p, g, m, v):
    m, v = torch.lerp(m, g, 0.1), (v * 0.999).addcmul_(g, g, value=0.001)
    return p - 0.001 * m / (v.sqrt() + 1e-8), m, v


def alibi(s, m):
    at = torch.arange(s.shape[-1]).to(s.dtype)
    return torch.softmax(s + m[None, :, None, None] * (at[None, :] - at[:, None]), -1)


def squeeze_excite(x, w1, w2):
    s = torch.sigmoid(torch.relu(x.mean((2, 3)) @ w1.T) @ w2.T)
    return x * s[:, :, None, None]


def sobel(x):
    both = torch.stack([SOBEL, SOBEL.T])[:, None].to(x.dtype)
    g = F.conv2d(x[None, None], both, padding=1)[0]
    return torch.sqrt(g[0] * g[0] + g[1] * g[1])


def gaussian_blur(x, g):
    c = x.shape[0]
    y = F.conv2d(x[None], g.reshape(1, 1, 1, 5).expand(c, 1, 1, 5), padding=(0, 2), groups=c)
    return F.conv2d(y, g.reshape(1, 1, 5, 1).expand(c, 1, 5, 1), padding=(2, 0), groups=c)[0]


def unpack_nibbles(w, s):
    q = torch.stack([w & 15, w >> 4], -1).flatten(1)
    return (q.to(torch.int32) - 8).to(s.dtype) * s[:, None]


def complex_linear(a, b):
    return torch.view_as_real(torch.view_as_complex(a) @ torch.view_as_complex(b).T)


def hamming(x, y):
    return (x[:, None] != y[None]).sum(-1, dtype=torch.int32)


def cross_attention(q, k, v):
    return F.scaled_dot_product_attention(q[None], k[None], v[None], scale=0.125)[0]


def quat_rotate(q, v):
    u = q[:, 1:]
    t = 2 * torch.linalg.cross(u, v)
    return v + q[:, :1] * t + torch.linalg.cross(u, t)


def rope_by_parity(x, c, s):
    turned = torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
    return x * c[:, None] + turned * s[:, None]


def blur_columns(x):
    x = F.pad(x[None], (0, 0, 1, 1), mode="replicate")[0]
    return 0.25 * x[:, :-2] + 0.5 * x[:, 1:-1] + 0.25 * x[:, 2:]


def distance_bias(table, t):
    at = torch.arange(t)
    return table[:, (at[:, None] - at).abs().clamp(max=31)]


def butterfly(x):
    a, b = x.unflatten(-1, (-1, 2, 4)).unbind(-2)
    return torch.stack([a + b, a - b], -2).flatten(-3)


OPERATORS = {
    # pointwise
    "quat_rotate": quat_rotate,
    "prelu": F.prelu,
    "gru_cell": gru_cell,
    "adam": adam,
    "cross3": torch.linalg.cross,
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
    "complex_mul": lambda x, y: torch.view_as_real(torch.view_as_complex(x) * torch.view_as_complex(y)),
    "soft_shrink": F.softshrink,
    "in_range": lambda x: (x >= -1) & (x < 1),
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
    "channel_layer_norm": lambda x, g, b: F.layer_norm(
        x.permute(0, 2, 3, 1), x.shape[1:2], g, b, 1e-6
    ).permute(0, 3, 1, 2),
    "short_softmax": lambda x: torch.softmax(x, 1),
    "short_norm": F.normalize,
    "short_layer_norm": lambda x, g: F.layer_norm(x, (x.shape[1],), g),
    "group_norm_nhwc": group_norm_nhwc,
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
    "short_argmax": lambda x: x.argmax(1),
    "short_sum": lambda x: x.sum(1),
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
    "short_cross_entropy": F.cross_entropy,
    "smoothed_cross_entropy": lambda x, y: F.cross_entropy(
        x, y, reduction="none", label_smoothing=0.1
    ),
    "total_variation": total_variation,
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
    "cummax": lambda x: x.cummax(1)[0],
    "logcumsumexp": lambda x: x.logcumsumexp(1),
    "moving_mean": lambda x: F.avg_pool1d(x[:, None], 16, 1)[:, 0],
    "differences": torch.diff,
    # layout
    "permute_0231": lambda x: x.permute(0, 2, 3, 1).contiguous(),
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
    "im2col": lambda x: F.unfold(x[None], 3, padding=1).reshape(-1, 3, 3, *x.shape[1:]),
    "window_partition": window_partition,
    "space_to_depth": lambda x: F.pixel_unshuffle(x, 2),
    "reflect_pad": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    "edge_pad": lambda x: F.pad(x, (2, 2, 2, 2), mode="replicate"),
    "concat_three": lambda x, y, z: torch.cat([x, y, z], 1),
    "stack_last": lambda x, y: torch.stack([x, y], 2),
    "every_third": lambda x: x[:, 1::3].contiguous(),
    "normalize_image": lambda x, m, s: (
        (x.permute(2, 0, 1) / 255 - m[:, None, None]) / s[:, None, None]
    ).contiguous(),
    "take_along": lambda x, ids: x.gather(1, ids),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 4),
    "relative_shift": relative_shift,
    "polar": lambda x, y: (torch.hypot(x, y), torch.atan2(y, x)),
    "haversine": haversine,
    # lookups
    "embedding": lambda ids, t: F.embedding(ids, t),
    "embedding_bag": lambda ids, t: F.embedding_bag(ids, t, mode="mean"),
    "embedding_i8": lambda ids, t: t[ids].float(),
    "one_hot": lambda ids, v: F.one_hot(ids, v).float(),
    "pick_one": lambda x, ids: x.gather(1, ids[:, None])[:, 0],
    "gather_first": lambda ids, x: x[ids],
    # ragged
    "csr_product": csr_product,
    "csr_vector": csr_product,
    "greatest_of_segments": greatest_of_segments,
    "bags_by_offsets": lambda ids, table, offsets: F.embedding_bag(ids, table, offsets, mode="sum"),
    "mean_of_padded": mean_of_padded,
    "max_of_padded": max_of_padded,
    "softmax_of_padded": softmax_of_padded,
    "sums_of_segments": lambda ptr, x: torch.segment_reduce(x, "sum", offsets=ptr, unsafe=True),
    # scatters
    "embedding_gradient": lambda ids, g, v: added((v, g.shape[1]), ids, g),
    "bincount": lambda x, b: torch.bincount(x, minlength=b),
    "long_bincount": lambda x, b: torch.bincount(x, minlength=b),
    "histograms": histograms,
    "segment_mean": segment_mean,
    "messages": lambda x, start, to, w: F.relu(added(x.shape, to, w[:, None] * x[start])),
    "greatest_message": greatest_message,
    "confusion_matrix": lambda y, p, c: count(c * c, y * c + p).reshape(c, c).int(),
    "nll": lambda x, y: F.nll_loss(x, y, reduction="none"),
    "one_hot_product": lambda y, w: w[y],
    "pillars": pillars,
    "repetition_penalty": repetition_penalty,
    "max_unpool": max_unpool,
    "mean_of_tokens": mean_of_tokens,
    "rope_by_position": rope_by_position,
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
    "head_scores": lambda q, k: 0.125 * (q.transpose(1, 2) @ k.permute(0, 2, 3, 1)),
    "lstm_cell": lstm_cell,
    "swiglu_mlp": lambda x, a, b: F.silu(F.linear(x, a)) * F.linear(x, b),
    "gram": lambda x: x @ x.t(),
    "kron": torch.kron,
    "rbf": lambda x, y: torch.exp(-0.01 * torch.cdist(x, y) ** 2),
    "l1_distances": lambda x, y: torch.cdist(x, y, p=1),
    "two_axes": lambda x, y: torch.einsum("abc,dcb->ad", x, y),
    "complex_product": complex_product,
    # attention
    "attention": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.125),
    "causal_attention": lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, is_causal=True, scale=0.125
    ),
    "cross_attention": cross_attention,
    "decode_gqa": decode_gqa,
    "window_attention": lambda q, k, v, r: F.scaled_dot_product_attention(
        q, k, v, attn_mask=r[None], scale=0.125
    ),
    "linear_attention": linear_attention,
    "merged_heads": merged_heads,
    # convolutions
    "stem": lambda x, w: F.conv2d(x[None], w, stride=2, padding=3)[0],
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
    "conv_nhwc": nhwc(lambda x, w: F.conv2d(x, w.permute(3, 2, 0, 1), padding=1)),
    "depthwise_nhwc": nhwc(
        lambda x, w: F.conv2d(x, w.permute(2, 0, 1)[:, None], padding=1, groups=x.shape[1])
    ),
    "depthwise7x7": lambda x, w: F.conv2d(x, w[:, None], padding=3, groups=x.shape[1]),
    "conv1d_causal": causal_conv,
    "patches": lambda x, w, b: F.conv2d(x, w, b, stride=16).flatten(2).transpose(1, 2),
    "upsampled_conv": lambda x, w: F.conv2d(F.interpolate(x, scale_factor=2), w, padding=1),
    "box_blur": lambda x: F.avg_pool2d(x[None], 5, 1, 2)[0],
    "resize_bilinear": lambda x: F.interpolate(
        x[None], scale_factor=2, mode="bilinear", align_corners=False
    )[0],
    "conv_of_edges": lambda x, w: F.conv2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), w),
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
    "max_pool_3_by_2": lambda x: F.max_pool2d(x, 3, 2, 1),
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
    "u8_less": torch.lt,
    "u8_between": lambda x: (x > 30) & (x <= 100),
    "u8_where": torch.where,
    "bool_xor": torch.logical_xor,
    "hamming": hamming,
    "bool_and": lambda x, y: x & ~y,
    "i8_max": torch.maximum,
    "f64_add": torch.add,
    "i64_to_f32": lambda x: x.float(),
    # of images and sounds, and of small types
    "gray": lambda x: 0.299 * x[..., 0].float() + 0.587 * x[..., 1].float() + 0.114 * x[..., 2].float(),
    "unpack_nibbles": unpack_nibbles,
    "gemv_i8": lambda w, s, x: s * (w.to(x.dtype) @ x),
    "dilate": lambda x: F.max_pool2d(x[None].float(), 3, 1, 1)[0].to(torch.uint8),
    "image_to_chw": lambda x, m, s: (x.permute(2, 0, 1).float() / 255 - m[:, None, None]) / s[:, None, None],
    "rot90": lambda x: torch.rot90(x).contiguous(),
    "circular_pad": lambda x: F.pad(x[None], (1, 1, 1, 1), mode="circular")[0],
    "resize_nearest": lambda x: F.interpolate(x[None], size=(80, 80), mode="nearest")[0],
    "small_products": torch.matmul,
    "points": F.linear,
    "cosines": lambda x, y: F.normalize(x) @ F.normalize(y).T,
    "complex_linear": complex_linear,
    "quadratic_form": lambda x, a: torch.einsum("bi,ij,bj->b", x, a, x),
    "local_response": lambda x: F.local_response_norm(x, 5, 1e-4, 0.75, 1.0),
    "softmax_channels": lambda x: torch.softmax(x, 1),
    "sobel": sobel,
    "gaussian_blur": gaussian_blur,
    "squeeze_excite": squeeze_excite,
    "alibi": alibi,
    "argmax_channels": lambda x: x.argmax(1),
    # indices
    "adaptive_avg_pool": lambda x: F.adaptive_avg_pool2d(x, 7),
    "rope_by_parity": rope_by_parity,
    "blur_columns": blur_columns,
    "distance_bias": distance_bias,
    "rows_with_padding": lambda x, ids: F.pad(x, (0, 0, 1, 0))[ids],
    "butterfly": butterfly,
}

# The extents that operators are called with behind their parameters, which have no axis of them.
EXTENTS = {
    "distance_bias": ["T"],
    "one_hot": ["V"],
    "embedding_gradient": ["V"],
    "bincount": ["B"],
    "long_bincount": ["B"],
    "merged_heads": ["H"],
    "histograms": ["B"],
    "segment_mean": ["S"],
    "greatest_message": ["N"],
    "confusion_matrix": ["C"],
    "pillars": ["H", "W"],
    "max_unpool": ["I"],
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
    "embedding_i8": {"ids": "V"},
    "embedding_bag": {"ids": "V"},
    "one_hot": {"ids": "V"},
    "pick_one": {"ids": "V"},
    "gather_first": {"ids": "V"},
    "embedding_gradient": {"ids": "V"},
    "bincount": {"x": "B"},
    "long_bincount": {"x": "B"},
    "histograms": {"x": "B"},
    "segment_mean": {"seg": "S"},
    "messages": {"from": "N", "to": "N"},
    "greatest_message": {"to": "N"},
    "confusion_matrix": {"y": "C", "p": "C"},
    "nll": {"y": "V"},
    "one_hot_product": {"y": "V"},
    "pillars": {"row": "H", "column": "W"},
    "repetition_penalty": {"before": "V"},
    "max_unpool": {"at": "I"},
    "rows_with_padding": {"ids": "V"},
    "mean_of_tokens": {"mask": "T"},
    "rope_by_position": {"pos": "T"},
    "take_along": {"ids": "M"},
    "smoothed_cross_entropy": {"y": "C"},
    "short_cross_entropy": {"t": "C"},
    "adam": {"v": "positive"},
    "csr_product": {"ptr": "E / N", "col": "M"},
    "csr_vector": {"ptr": "E / N", "col": "M"},
    "greatest_of_segments": {"ptr": "E / N"},
    "bags_by_offsets": {"ids": "V", "offsets": "E / B"},
    "mean_of_padded": {"len": "L"},
    "max_of_padded": {"len": "L"},
    "softmax_of_padded": {"len": "L"},
    "sums_of_segments": {"ptr": "E / N"},
}
