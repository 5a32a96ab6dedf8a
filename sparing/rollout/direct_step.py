"""One-token steps of Llama, Mistral, Qwen2 and Qwen3 without the module calls of transformers.

For small models Python, not arithmetic, sets the pace of decoding: transformers makes about 80 calls a layer and step,
this makes 20. It is the same computation on the same weights; other models take `ModelForward`'s general path.

Shape legend: B rows, E hidden size, H query heads, K key-value heads, D head size, L cache columns, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from transformers import LlamaForCausalLM, MistralForCausalLM, PreTrainedModel, Qwen2ForCausalLM, Qwen3ForCausalLM

from sparing.rollout.cache import RolloutCache

_MODELS = (LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM)
# Weights are copied into joint matrices for the time of a call; beyond this size arithmetic dominates anyway.
_MOST_PARAMETERS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class _Layer:
    attention_norm: nn.Module
    qkv: torch.Tensor
    qkv_bias: torch.Tensor | None
    head_norm: torch.Tensor | None
    out: nn.Linear
    mlp_norm: nn.Module
    gate_up: torch.Tensor
    gate_up_bias: torch.Tensor | None
    down: nn.Linear
    mask: str


def supports(model: PreTrainedModel) -> bool:
    """Whether `DirectStep` computes what this model does: a known class in float32, unaltered by adapters or hooks."""
    if type(model) not in _MODELS or model.config._attn_implementation != "sdpa":
        return False
    if model.num_parameters() > _MOST_PARAMETERS or {p.dtype for p in model.parameters()} != {torch.float32}:
        return False
    if any(module._forward_hooks or module._forward_pre_hooks for module in model.modules()):
        return False
    projections = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    return all(type(module) is nn.Linear for name, module in model.named_modules() if name.endswith(projections))


class DirectStep:
    """Steps with the weights that the model has when this is made; make a new one after an update."""

    def __init__(self, model: PreTrainedModel) -> None:
        body: Any = model.model
        first = body.layers[0].self_attn
        self._embedding: torch.Tensor = body.embed_tokens.weight
        self._rotary = body.rotary_emb
        self._norm = body.norm
        self._head: nn.Linear = model.lm_head
        self._head_dim: int = first.head_dim
        self._num_keys: int = first.k_proj.weight.shape[0] // first.head_dim
        self._num_queries: int = first.q_proj.weight.shape[0] // first.head_dim
        self._scaling: float = first.scaling
        self.keys_by_feature = self._embedding.device.type == "cpu"
        self._act = body.layers[0].mlp.act_fn
        types = getattr(model.config, "layer_types", None) or [""] * len(body.layers)
        self._layers = [self._layer(layer, kind) for layer, kind in zip(body.layers, types, strict=True)]

    def _layer(self, layer: Any, kind: str) -> _Layer:
        attention, mlp = layer.self_attn, layer.mlp
        qkv = (attention.q_proj, attention.k_proj, attention.v_proj)
        head_norm = None
        if hasattr(attention, "q_norm"):
            q, k = attention.q_norm.weight, attention.k_norm.weight
            head_norm = torch.stack([q] * self._num_queries + [k] * self._num_keys)
            self._head_eps: float = attention.q_norm.variance_epsilon
        return _Layer(
            attention_norm=layer.input_layernorm,
            qkv=torch.cat([linear.weight for linear in qkv]),
            qkv_bias=torch.cat([linear.bias for linear in qkv]) if qkv[0].bias is not None else None,
            head_norm=head_norm,
            out=attention.o_proj,
            mlp_norm=layer.post_attention_layernorm,
            gate_up=torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]),
            gate_up_bias=torch.cat([mlp.gate_proj.bias, mlp.up_proj.bias]) if mlp.up_proj.bias is not None else None,
            down=mlp.down_proj,
            mask=kind,
        )

    def __call__(
        self,
        tokens_B: torch.Tensor,
        positions_B: torch.Tensor,
        masks: torch.Tensor | Mapping[str, torch.Tensor],
        cache: RolloutCache,
    ) -> torch.Tensor:
        """Logits (B, V) after one more token in each row; `cache.step` has said where its states belong."""
        x_BE = F.embedding(tokens_B, self._embedding)
        cos_B1D, sin_B1D = self._rotary(x_BE, positions_B[:, None])
        # Rotating half: (-x2, x1) * sin is (x2, x1) * (-sin, sin), with the signs put in once.
        half = self._head_dim // 2
        sin_B1D = torch.cat((-sin_B1D[..., :half], sin_B1D[..., half:]), dim=-1)
        for index, layer in enumerate(self._layers):
            mask = masks if isinstance(masks, torch.Tensor) else masks[layer.mask]
            h_BE = F.linear(_rms_norm(x_BE, layer.attention_norm), layer.qkv, layer.qkv_bias)
            x_BE = x_BE + self._attend(h_BE, layer, index, cos_B1D, sin_B1D, mask, cache)
            h_BE = F.linear(_rms_norm(x_BE, layer.mlp_norm), layer.gate_up, layer.gate_up_bias)
            gate, up = h_BE.chunk(2, dim=-1)
            x_BE = x_BE + F.linear(self._act(gate) * up, layer.down.weight, layer.down.bias)
        return F.linear(_rms_norm(x_BE, self._norm), self._head.weight, self._head.bias)

    def _attend(
        self,
        qkv: torch.Tensor,
        layer: _Layer,
        index: int,
        cos_B1D: torch.Tensor,
        sin_B1D: torch.Tensor,
        mask: torch.Tensor,
        cache: RolloutCache,
    ) -> torch.Tensor:
        rows, num_keys, head_dim = qkv.shape[0], self._num_keys, self._head_dim
        heads = qkv.view(rows, -1, head_dim)
        num_rotated = self._num_queries + num_keys
        rotated = heads[:, :num_rotated]
        if layer.head_norm is not None:
            rotated = F.rms_norm(rotated, (head_dim,), eps=self._head_eps) * layer.head_norm
        first, second = rotated.chunk(2, dim=-1)
        rotated = rotated * cos_B1D + torch.cat((second, first), dim=-1) * sin_B1D
        keys, values = cache.update(rotated[:, self._num_queries :, None], heads[:, num_rotated:, None], index)
        # Queries of one key-value head become its rows, so that no key or value is repeated.
        queries = rotated[:, : self._num_queries].reshape(rows, num_keys, -1, head_dim)
        if self.keys_by_feature:
            # On a CPU two batched products take three quarters of the time of the fused kernel for one token a row.
            scores = torch.matmul(queries * self._scaling, keys.transpose(2, 3)).add_(mask)
            mixed = torch.matmul(torch.softmax(scores, dim=-1), values)
        else:
            mixed = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=self._scaling)
        return F.linear(mixed.reshape(rows, -1), layer.out.weight, layer.out.bias)


def _rms_norm(x: torch.Tensor, norm: Any) -> torch.Tensor:
    weight: torch.Tensor = norm.weight
    return F.rms_norm(x, weight.shape, weight, norm.variance_epsilon)  # type: ignore[arg-type]
