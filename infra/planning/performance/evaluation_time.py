"""How long the serving check needs for the questions of `serving.evaluation`, predicted from the speeds of the plan.

The questions themselves lie in infra/serving/evaluation, which a plan does not read; a test there holds these sizes to them.
"""

from __future__ import annotations

from infra.planning.performance import prompts
from infra.planning.performance.speed import SpeedModel
from infra.planning.server.server import Server
from infra.planning.units import Band

QUESTIONS = 48
"""Questions other than those about long texts."""
PROMPT_TOKENS = 150
"""Of such a question on average: most have some 60, those with tools or a picture some 350."""
ANSWER_TOKENS = 50
"""Of such a question's answer on average: a judgement, between the few that most need and the 240 at which one is cut."""
ANSWER_ERROR = 2.0
"""Factor by which answers may be longer or shorter: no real model was asked."""
RUNNING = 4
"""Requests at once."""
LONGEST_CHECKED = 16_384
"""Tokens of the longest text that a serving check has read; `gemma4 evaluate` goes up to the whole context."""
CONTEXT_LENGTHS, QUESTIONS_A_TEXT = 3, 4
"""Lengths of long texts, each half the next, and questions about each."""


def evaluation_seconds(server: Server, *, prefix_caching: bool) -> Band:
    """Return the seconds that all questions of a serving check take. With prefix caching each long text is read once."""
    running = max(1, min(RUNNING, server.max_num_seqs))
    rate = SpeedModel(server, PROMPT_TOKENS, ANSWER_TOKENS).tokens_per_second_at(running).with_new_prompts
    longest = min(LONGEST_CHECKED, server.max_model_len)
    readings = 1 if prefix_caching else QUESTIONS_A_TEXT
    texts = [prompts.first_token(server, longest >> halved).times(readings) for halved in range(CONTEXT_LENGTHS)]
    answers = rate.dividing(QUESTIONS * ANSWER_TOKENS)
    return Band.total([Band(answers.low / ANSWER_ERROR, answers.mid, answers.high * ANSWER_ERROR), *texts])
