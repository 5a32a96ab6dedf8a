"""The model that ships: size, format, and what it can do."""

import pytest

from sparing.lab import FAMILIES, base_model_path, make_problems
from sparing.lab.tokenizer import make_tokenizer
from sparing.rollout.decode import LocalCompleter
from sparing.rollout.evaluate import evaluate
from sparing.rollout.model import load_model
from sparing.settings import ModelSettings, ThinkingSettings, VerifierSettings
from sparing.verify.grader import Grader


def test_it_takes_at_most_four_megabytes():
    assert sum(file.stat().st_size for file in base_model_path().iterdir()) <= 4 * 2**20


def test_its_tokenizer_is_the_one_the_code_makes():
    from transformers import AutoTokenizer

    shipped = AutoTokenizer.from_pretrained(base_model_path())
    assert shipped.get_vocab() == make_tokenizer().get_vocab()
    assert shipped.chat_template == make_tokenizer().chat_template


@pytest.fixture(scope="module")
def results():
    loaded = load_model(ModelSettings(path=str(base_model_path()), threads=1))
    problems = [
        problem
        for domain in FAMILIES
        for problem in make_problems(domain=domain, tier="easy", split="validation", num_problems=16)
    ]
    completer = LocalCompleter(loaded)
    with Grader(ThinkingSettings(), VerifierSettings()) as grader:
        return evaluate(completer, grader, problems, k=2, temperature=0.6, top_p=1.0, max_tokens=512, seed=0)


@pytest.mark.parametrize("domain", FAMILIES)
def test_it_solves_most_easy_problems_and_overthinks_them(results, domain):
    own = [result for result in results if result.problem.domain == domain]
    correct = [outcome for result in own for outcome in result.correct]
    assert sum(correct) / len(correct) >= 0.6
    length = sum(sum(result.lengths) for result in own)
    shortest = sum(2 * result.problem.shortest_length for result in own)
    assert length > 2 * shortest
