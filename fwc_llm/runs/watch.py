"""The watch while asking: a run whose replies hold no answer stops after a dozen of them.

See docs/running.md, "Replies without an answer".
"""

from collections import Counter, defaultdict
from collections.abc import Collection

from fwc_llm.errors import ProviderError
from fwc_llm.models.base import Model, traits
from fwc_llm.models.openai.chat import REASONING_TOKENS, asks_json
from fwc_llm.runs.journal import Journal, PlannedCall
from fwc_llm.runs.multi_row_requests import ROWS
from fwc_llm.sanitize import replace_invisible

FIRST = 12  # replies of an arm
KEPT_BACK = ("refused", "filtered")  # findings, not faults
_SHOWN = 120  # characters of a reply


class UnreadError(ProviderError):
    """None of an arm's first replies holds an answer: exit code 3."""


class Watch:
    """Counts the first replies of each arm, or of those `arms`, until one of them holds an answer.

    Until then no more requests of an arm are under way than may still be without an answer.
    """

    def __init__(self, model: Model, journal: Journal, arms: Collection[str] | None = None) -> None:
        self._model, self._journal, self._arms = model, journal, arms
        self._read: set[str] = set()
        self._unread: defaultdict[str, list[str]] = defaultdict(list)
        self._under_way: Counter[str] = Counter()

    def _watches(self, call: PlannedCall) -> bool:
        chosen = self._arms is None or call.arm in self._arms
        return chosen and call.arm not in self._read and not call.variant.startswith(ROWS)

    def begin(self, call: PlannedCall) -> bool:
        """Whether the call may be asked now; else it waits for others of its arm."""
        if self._watches(call) and self._under_way[call.arm] + len(self._unread[call.arm]) >= FIRST:
            return False
        self._under_way[call.arm] += 1
        return True

    def end(self, call: PlannedCall) -> None:
        """Count a call as no longer under way."""
        self._under_way[call.arm] -= 1

    def take(self, call: PlannedCall, request: str) -> None:
        """Look at the reply to a call in the journal; `UnreadError` after the last without an answer."""
        if not self._watches(call):
            return
        reason = self._journal.answerless.get(bytes.fromhex(request))
        if reason is None:
            self._read.add(call.arm)
        elif reason not in KEPT_BACK:
            self._unread[call.arm].append(request)
            if len(self._unread[call.arm]) == FIRST:
                self._stop(call.arm)

    def _stop(self, arm: str) -> None:
        """Raise `UnreadError` with the reasons and one of the replies."""
        texts = (each["text"] for each in self._journal.records() if each["request"] in self._unread[arm])
        reasons = Counter(self._journal.answerless[bytes.fromhex(each)] for each in self._unread[arm])
        counted = ", ".join(f"{number} {reason}" for reason, number in reasons.most_common())
        text = replace_invisible(" ".join(next(filter(None, texts), "").split()))
        example = f"one of them: “{text[:_SHOWN]}{'…' * (len(text) > _SHOWN)}”" if text else "they are empty"
        raise UnreadError(
            f"none of the first {FIRST} replies of {arm} holds an answer ({counted}; {example}): "
            f"{self._remedy(reasons)}, in a new --out; what came is kept, and --no-watch goes on here"
        )

    def _remedy(self, reasons: Counter[str]) -> str:
        limit, about = traits(self._model).completion_limit, traits(self._model)
        if reasons.most_common(1)[0][0] == "truncated" and limit:
            more = f"--max-tokens {max(REASONING_TOKENS, 4 * limit)}"
            less = " or --param reasoning_effort=low" if limit >= REASONING_TOKENS else ""
            return f"the model spends its {limit:,} tokens before it answers: give it more with {more}{less}"
        if about.answer_in is None:
            return "see what the model returns to a prompt (fwc-llm prompt shows one)"
        if asks_json(self._model.parameters):
            return "the service does not keep to the answer format: try --answer-format word, or a --template"
        return "hold the service to an answer with --answer-format json, or try another --template"
