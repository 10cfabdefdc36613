"""Llama in plain torch, from token ids to logits; where the keys and values are kept is somebody else's business.

Read it from top to bottom. Tokens of all requests lie packed one after the other, so every tensor starts with a
dimension `tokens` and there is no batch dimension and no padding. All parts but one treat each token on its own. The
one part in which tokens meet, attention, is handed in by the caller as `attend`: it stores this step's keys and values
wherever it likes (a paged pool, a plain list) and returns what attention over the whole past gives.

`in_one_go` marks what `kernels/cpp` does in one pass over the memory for the few tokens of a decode step on a CPU.
What stands below the mark says the same in torch, for everything else.

The model may be one rank's part of a larger one (`split.py`); then its `group` adds up and puts together what the ranks
have. Of a whole model it gives back what it was given.

Architecture: Llama (Touvron et al. 2023), with grouped-query attention, in the layout of Hugging Face checkpoints.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pagedlab.kernels.cpp import calls
from pagedlab.kernels.cpp.calls import in_one_go
from pagedlab.model.config import LlamaConfig
from pagedlab.model.split import ALONE, Group

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
EachToken = Callable[..., Tensor]


# On a CPU so many tokens of a long prompt go through the parts that treat each token on its own at a time: what lies in
# between then stays near the processor, and takes little memory. A GPU takes them all at once.
TOKENS_AT_A_TIME = 512


def in_parts(part: EachToken, *rows: Tensor) -> Tensor:
    """`part(*rows)`, where it treats each token on its own: rows [tokens, …] each -> [tokens, …].

    What a token gets then still differs in its last bits with those that are beside it: a product of other sizes adds
    in another order. Where that matters, `tiles.py` cuts tokens in another way.
    """
    at_a_time = TOKENS_AT_A_TIME if rows[0].device.type == "cpu" else len(rows[0])
    if len(rows[0]) <= at_a_time:  # as in every decode step
        return part(*rows)
    done = [part(*pieces) for pieces in zip(*(t.split(at_a_time) for t in rows), strict=True)]
    return torch.cat(done)


@in_one_go(calls.linear)
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [tokens, in], weight [out, in] -> [tokens, out].

    For fp32 on a CPU torch has two libraries. `F.linear` takes MKL, which is slow on processors that are not Intel's;
    oneDNN is quick on all (`pagedlab bench engine` measures several forms).
    """
    if x.device.type == "cpu" and x.dtype == torch.float32 and torch.backends.mkldnn.is_available():
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return F.linear(x, weight, bias)


@in_one_go(calls.rms_norm)
def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Scale each token's vector to root mean square 1, computed in fp32, then by a learnt weight: [tokens, n]."""
    x32 = x.float()
    scale = x32.square().mean(-1, keepdim=True).add_(eps).rsqrt_()
    return torch.mul(x32, scale).to(x.dtype).mul_(weight)


def rope_frequencies(config: LlamaConfig) -> Tensor:
    """The angle, in radians, by which each pair of a head turns per position: fp32 [head_size / 2]."""
    exponent = torch.arange(0, config.head_size, 2, dtype=torch.float32) / config.head_size
    frequency = 1.0 / config.rope_theta**exponent
    scaling = config.rope_scaling
    if scaling is None:
        return frequency
    if scaling["rope_type"] == "linear":
        return frequency / scaling["factor"]
    # Llama 3.1: slow pairs, which would not complete a turn within the original context, are slowed by `factor`,
    # quick ones stay, and those between are blended.
    turns = scaling["original_max_position_embeddings"] * frequency / (2 * math.pi)
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    keep = ((turns - low) / (high - low)).clamp(0, 1)
    return frequency * keep + frequency / scaling["factor"] * (1 - keep)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding in the half-rotation form, in place: element i is paired with element i + head_size / 2.

    x [tokens, heads, head_size]; cos and sin [tokens, 1, head_size / 2]. A pair (a, b) becomes
    (a cos - b sin, b cos + a sin).
    """
    a, b = x.chunk(2, dim=-1)
    turned = a * cos - b * sin
    b.mul_(cos).addcmul_(a, sin)
    a.copy_(turned)
    return x


def gated(gate_up: Tensor) -> Tensor:
    """silu(gate) * up, which lie side by side: [tokens, 2 n] -> [tokens, n]."""
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate).mul_(up)


@in_one_go(calls.heads)
def rotated_heads(
    hidden: Tensor, norm: Tensor, eps: float, qkv: Tensor, bias: Tensor | None, cos: Tensor, sin: Tensor, turned: int
) -> Tensor:
    """hidden [tokens, n], norm [n], qkv [all heads * head_size, n] -> [tokens, all heads, head_size].

    The first ``turned`` heads, of query and key, are rotated.
    """
    heads = linear(rms_norm(hidden, norm, eps), qkv, bias).view(len(hidden), -1, 2 * cos.shape[-1])
    rotate(heads[:, :turned], cos, sin)
    return heads


@in_one_go(calls.feed_forward)
def feed_forward(hidden: Tensor, norm: Tensor, eps: float, gate_up: Tensor, down: Tensor) -> Tensor:
    """hidden [tokens, n], norm [n], gate_up [2 m, n], down [n, m] -> [tokens, n]; each token on its own."""
    return linear(gated(linear(rms_norm(hidden, norm, eps), gate_up)), down)


class LlamaLayer(nn.Module):
    """Attention, then a gated feed-forward, each added to the stream that passes through.

    The matrices that read the same input lie in one: query, key and value; gate and up. Fewer, larger products.
    """

    def __init__(self, config: LlamaConfig, index: int, group: Group = ALONE, **where):
        super().__init__()
        self.config, self.index, self.group = config, index, group
        heads = config.num_query_heads + 2 * config.num_kv_heads
        self.attention_norm = nn.Parameter(torch.empty(config.hidden_size, **where))
        self.qkv = nn.Parameter(torch.empty(heads * config.head_size, config.hidden_size, **where))
        self.qkv_bias = nn.Parameter(torch.empty(heads * config.head_size, **where)) if config.qkv_bias else None
        attended = config.num_query_heads * config.head_size
        self.output = nn.Parameter(torch.empty(config.hidden_size, attended, **where))
        self.mlp_norm = nn.Parameter(torch.empty(config.hidden_size, **where))
        self.gate_up = nn.Parameter(torch.empty(2 * config.intermediate_size, config.hidden_size, **where))
        self.down = nn.Parameter(torch.empty(config.hidden_size, config.intermediate_size, **where))

    def forward(self, hidden: Tensor, cos: Tensor, sin: Tensor, attend: Attend, each_token: EachToken) -> Tensor:
        config = self.config
        heads = each_token(self.heads, hidden, cos, sin)
        sizes = (config.num_query_heads, config.num_kv_heads, config.num_kv_heads)
        attended = attend(self.index, *heads.split_with_sizes(sizes, 1)).flatten(1)
        return each_token(self.add_both, hidden, attended)

    def heads(self, hidden: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Query, key and value heads of each token, query and key rotated: [tokens, heads, head_size]."""
        config = self.config
        turned = config.num_query_heads + config.num_kv_heads
        eps = config.rms_norm_eps
        return rotated_heads(hidden, self.attention_norm, eps, self.qkv, self.qkv_bias, cos, sin, turned)

    def add_both(self, hidden: Tensor, attended: Tensor) -> Tensor:
        """What attention gave, then what the feed-forward gives, added in place to `hidden` [tokens, hidden_size]."""
        hidden.add_(self.group.all_reduce(linear(attended, self.output)))
        return hidden.add_(self.group.all_reduce(self.feed_forward(hidden)))

    def feed_forward(self, hidden: Tensor) -> Tensor:
        """Each token on its own: [tokens, hidden_size] -> the same."""
        return feed_forward(hidden, self.mlp_norm, self.config.rms_norm_eps, self.gate_up, self.down)


class LlamaModel(nn.Module):
    """The whole model, for inference, or what `group` leaves of it to this rank: `config` is then of this part.

    `load_model` (weights.py) fills it; here its weights are not yet set.
    """

    def __init__(
        self,
        whole: LlamaConfig,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        group: Group = ALONE,
    ):
        super().__init__()
        self.whole, self.group, self.vocabulary = whole, group, group.split.vocabulary(whole)
        self.config = config = group.split.config(whole)
        where = {"device": device, "dtype": dtype}
        self.embedding = nn.Parameter(torch.empty(len(self.vocabulary), config.hidden_size, **where))
        self.layers = nn.ModuleList(LlamaLayer(config, index, group, **where) for index in range(config.num_layers))
        self.norm = nn.Parameter(torch.empty(config.hidden_size, **where))
        # "Tied" means that the same matrix turns ids into vectors and vectors into scores.
        self.head = self.embedding if config.tie_word_embeddings else nn.Parameter(torch.empty_like(self.embedding))
        angles = torch.arange(config.max_model_len)[:, None] * rope_frequencies(config)
        self.register_buffer("cos", angles.cos().to(**where)[:, None], persistent=False)
        self.register_buffer("sin", angles.sin().to(**where)[:, None], persistent=False)
        self.requires_grad_(False).eval()

    @property
    def device(self) -> torch.device:
        return self.embedding.device

    @property
    def dtype(self) -> torch.dtype:
        return self.embedding.dtype

    @property
    def num_bytes(self) -> int:
        """Bytes that the weights take; a tied matrix counts once."""
        return sum(weight.nbytes for weight in self.parameters())

    @torch.inference_mode()
    def forward(self, token_ids: Tensor, positions: Tensor, attend: Attend, each_token: EachToken = in_parts) -> Tensor:
        """One pass over the packed tokens of a step, of any number of requests.

        token_ids, positions: int64 [tokens], each position in its own request, below `max_model_len`.
        attend(layer, query [tokens, query heads, head size], key [tokens, KV heads, head size], value [same as key])
        -> [tokens, query heads, head size]; query and key come rotated to their positions.
        each_token(part, *rows) runs a part that treats each token on its own over all of them, see `in_parts`.
        Returns hidden [tokens, hidden_size], normalised, ready for `logits`.
        """
        hidden = self.group.all_reduce(self.vectors(token_ids))
        cos, sin = self.cos[positions], self.sin[positions]
        for layer in self.layers:
            hidden = layer(hidden, cos, sin, attend, each_token)
        return each_token(lambda rows: rms_norm(rows, self.norm, self.config.rms_norm_eps), hidden)

    def vectors(self, token_ids: Tensor) -> Tensor:
        """Of each token [tokens, hidden_size]; zeros for those whose vectors another rank has."""
        if self.group.split.size == 1:
            return self.embedding[token_ids]
        rows = token_ids - self.vocabulary.start
        here = (rows >= 0) & (rows < len(self.vocabulary))
        return self.embedding[rows.where(here, 0)].mul_(here[:, None])

    @torch.inference_mode()
    def logits(self, hidden: Tensor, each_token: EachToken = in_parts) -> Tensor:
        """Scores of every possible next token: hidden [n, hidden_size] -> float32 [n, vocab_size].

        Ask only for the tokens that are to be followed by a new one: this is the largest product of a decode step.
        """
        scores = each_token(lambda rows: linear(rows, self.head).float(), hidden)
        return self.group.all_gather(scores)[:, : self.config.vocab_size].contiguous()
