import numpy as np
import pytest
import torch

from sparing.rollout import sampling
from sparing.rollout.sampling import choose_tokens, sequence_keys, uniforms

# 99.9 % quantile of the chi-square distribution with 7 degrees of freedom.
CHI_SQUARE_7 = 24.32


def draw(logits, num, *, temperature=1.0, top_p=1.0, seed=0):
    """`num` sequences draw their first token from the same logits."""
    u = torch.from_numpy(uniforms(sequence_keys(seed, num), np.zeros(num, dtype=np.int64)))
    return choose_tokens(logits.expand(num, -1), u, temperature=temperature, top_p=top_p)


def chi_square(tokens, probabilities):
    counts = np.bincount(tokens.numpy(), minlength=len(probabilities))
    expected = len(tokens) * probabilities
    assert (counts[expected == 0] == 0).all()
    some = expected > 0
    return (((counts - expected) ** 2)[some] / expected[some]).sum()


@pytest.mark.parametrize("temperature", [0.6, 1.0, 2.0])
def test_tokens_follow_the_softmax_at_the_temperature(temperature):
    logits = torch.tensor([[0.3, -1.0, 2.0, 0.0, 1.1, -0.4, 0.9, -2.0]])
    tokens, _ = draw(logits, 20000, temperature=temperature)
    probabilities = torch.softmax(logits[0].double() / temperature, -1).numpy()
    assert chi_square(tokens, probabilities) < CHI_SQUARE_7


def test_top_p_keeps_the_smallest_set_that_holds_the_mass():
    probabilities = np.array([0.05, 0.4, 0.05, 0.3, 0.1, 0.04, 0.03, 0.03])
    tokens, logprobs = draw(torch.tensor(probabilities).log()[None].float(), 20000, top_p=0.75)
    # 0.4 + 0.3 is short of 0.75, so the token of 0.1 is the last that is kept: 4/8, 3/8, 1/8.
    assert chi_square(tokens, np.array([0, 4 / 8, 0, 3 / 8, 1 / 8, 0, 0, 0])) < CHI_SQUARE_7
    np.testing.assert_allclose(logprobs.exp(), probabilities[tokens.numpy()], rtol=1e-5)


def test_top_p_never_filters_everything():
    tokens, _ = draw(torch.tensor([[0.0, 5.0, 0.0]]), 100, top_p=1e-9)
    assert (tokens == 1).all()


def test_tokens_of_probability_zero_are_not_drawn():
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]])
    edges = torch.tensor([0.0, np.nextafter(0.5, 0), 0.5, 1 - 2.0**-52], dtype=torch.float64)
    tokens, logprobs = choose_tokens(logits.expand(4, -1), edges, temperature=1.0, top_p=1.0)
    assert tokens.tolist() == [1, 1, 3, 3]
    np.testing.assert_allclose(logprobs, np.log(0.5), rtol=1e-6)


def test_a_large_vocabulary_in_pieces_gives_the_same(monkeypatch):
    logits = torch.randn(7, 50, generator=torch.Generator().manual_seed(0))
    u = torch.from_numpy(uniforms(sequence_keys(3, 7), np.arange(7)))
    whole = choose_tokens(logits, u, temperature=0.7, top_p=0.9)
    monkeypatch.setattr(sampling, "_PIECE_ELEMENTS", 100)
    pieces = choose_tokens(logits, u, temperature=0.7, top_p=0.9)
    assert torch.equal(whole[0], pieces[0])
    assert torch.equal(whole[1], pieces[1])


def test_uniforms_belong_to_sequence_and_position():
    keys = sequence_keys(5, 100)
    grid = np.stack([uniforms(keys, np.full(100, position)) for position in range(200)])
    assert len(np.unique(grid)) == grid.size
    assert 0 <= grid.min() < 0.001
    assert 0.999 < grid.max() < 1
    # Standard errors at 20,000 numbers: 0.002 for the mean, 0.007 for correlations.
    assert abs(grid.mean() - 0.5) < 0.008
    assert abs(np.corrcoef(grid[:-1].ravel(), grid[1:].ravel())[0, 1]) < 0.03
    assert abs(np.corrcoef(grid[:, :-1].ravel(), grid[:, 1:].ravel())[0, 1]) < 0.03
    # A sequence's stream does not depend on how many others there are, nor on their order.
    np.testing.assert_array_equal(sequence_keys(5, 3), keys[:3])
    np.testing.assert_array_equal(uniforms(keys[[7, 2]], np.array([4, 9])), [grid[4, 7], grid[9, 2]])
    assert not np.intersect1d(sequence_keys(6, 100), keys).size
