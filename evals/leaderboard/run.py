"""Ask a model the protocol and write its file after every run: an end in mid-protocol has one, too.

What the file says of a run is read from the run's folder alone (`record`), so that anybody can make it again.
"""

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from evals.leaderboard.protocol import FORMAT, TASKS, Part, parts
from fwc_llm.errors import FwcError, InterruptedRunError, StorageError
from fwc_llm.evaluation.evaluate import Job, prepare
from fwc_llm.evaluation.result import Result
from fwc_llm.files import sha256, write_whole
from fwc_llm.metrics.intervals import wilson
from fwc_llm.models import Client, open_model, traits
from fwc_llm.models.base import Usage
from fwc_llm.models.recorded import FILE_NAME, read_records
from fwc_llm.models.replay import PREFIX
from fwc_llm.runs.folder import RunFolder
from fwc_llm.runs.multi_row_requests import ROWS as JOINT
from fwc_llm.runs.settings import Api, Settings

_METRICS = {
    "gap": "demographic_parity_difference", "ratio": "demographic_parity_ratio",
    "equalized_odds": "equalized_odds_difference", "accuracy": "accuracy",
}  # fmt: skip
_ENDS = ("value", "low", "high")


@dataclass(frozen=True)
class Asking:
    """Who is asked, with at most `rows` rows a run; the folder of the runs; the tasks that are asked now."""

    model: str
    folder: Path
    rows: int
    api: Api
    client: Client
    tasks: tuple[str, ...] = TASKS

    def parts(self) -> list[Part]:
        """The runs of the protocol for this model, also of tasks that are not asked now."""
        if self.model.startswith(PREFIX):
            raise FwcError(f"{self.model}: the leaderboard takes no replayed replies; ask the model itself")
        model = traits(open_model(self.model, self.client, api=self.api))
        return list(parts(self.rows, model.api, model.reference))

    def forecast(self) -> None:
        """Print what the protocol asks, its tokens, and what it costs at most; nothing is asked."""
        total, tokens, most, counted = 0, 0, 0.0, True
        for part in self.parts():
            if part.task not in self.tasks:
                continue
            try:
                numbers = self._job(part).forecast()
            except FwcError as error:
                print(f"{part.name}: cannot be asked: {error}")
                continue
            total, tokens = total + numbers.calls, tokens + numbers.prompt_tokens
            most += float("nan") if numbers.dollars_most is None else numbers.dollars_most
            counted &= numbers.exact
            print(f"{part.name}: {numbers.calls:,} requests, {numbers.prompt_tokens:,} prompt tokens")
        cost = "cost unknown: no price (--prices)" if most != most else f"at most ${most:.2f}"
        estimate = "" if counted else " (an estimate)"
        print(f"the protocol: {total:,} requests, {tokens:,} prompt tokens{estimate}, {cost}")

    def ask(self, out: Path) -> dict[str, Any]:
        """Ask what the folder's journals do not answer, and write to `out` what came of it; return that.

        A run that the service refuses is missing, and the next is asked. Ctrl-C and a full disk are raised,
        when the file says what is missing.
        """
        wanted = self.parts()
        entry: dict[str, Any] = {
            "format": FORMAT, "model": self.model, "api": self.api, "rows": self.rows, "simulated": False,
            "reference": False, "dollars": 0.0, "missing": {part.name: "not asked" for part in wanted},
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors", "parts": {},
        }  # fmt: skip
        for part in wanted:
            if part.task not in self.tasks:
                continue
            job, ended, why = None, None, ""
            try:
                job = self._job(part)
                data = job.run(self.folder / part.name, elsewhere=entry["dollars"] or 0.0).data
                missing = f"{data['unanswered']} of {data['requests']} requests have no reply"
                why = data["stopped"] or missing * bool(data["unanswered"])
            except FwcError as error:
                why, ended = str(error), error
            try:
                entry["parts"][part.name] = record(self.folder / part.name)
                described = RunFolder.existing(self.folder / part.name).describe()
                entry |= {key: described[key] for key in ("parameters", "versions", "reference")}
                entry |= {"simulated": described["simulated_answers"], "api": described["settings"]["api"]}
                price, usage = job.price if job else None, Usage(**entry["parts"][part.name]["usage"])
                if price is None or entry["dollars"] is None:
                    entry["dollars"] = None
                else:
                    entry["dollars"] += price.dollars(usage)
            except FwcError:
                why = why or "no reply"
            del entry["missing"][part.name]
            entry["missing"] |= {part.name: why} if why else {}
            write_whole(json.dumps(entry, indent=1, ensure_ascii=False) + "\n", out)
            print(f"{part.name}: {why or 'complete'}", flush=True)
            if isinstance(ended, StorageError | InterruptedRunError):
                raise ended
        return entry

    def _job(self, part: Part) -> Job:
        return prepare(part.task, self.model, part.arms, Settings(**part.settings), self.client, notice=print)


def record(path: Path) -> dict[str, Any]:
    """The numbers of the run in a folder, each with its 95 % interval, and what they rest on."""
    folder = RunFolder.existing(path)
    described, data = folder.describe(), folder.results()
    result = Result(path, data)
    audit = result.audit().to_dict()  # first: it refuses a run without any reply
    answers = result.answers().query("variant == ''")
    counted = {arm["arm"]: arm for arm in data["arms"]}
    latency = [
        each["latency"]
        for each in read_records(path / FILE_NAME)
        if each["text"] is not None and not str(each["variant"]).startswith(JOINT)
    ]
    made = {
        **{key: described[key] for key in ("task", "fingerprint", "created")},
        **{key: data[key] for key in ("requests", "unanswered", "usage")},
        "seconds": dict(zip(_ENDS, np.quantile(latency, (0.5, 0.05, 0.95)), strict=True)),
        "sha256": {FILE_NAME: sha256(path / FILE_NAME)},
        "arms": {
            arm["arm"]: _arm(arm, answers[answers["arm"] == arm["arm"]], counted[arm["arm"]])
            for arm in audit["arms"]
        },
    }
    text = json.dumps(made, default=float)
    return dict(json.loads(text, parse_float=lambda number: round(float(number), 6)))


def _arm(arm: Mapping[str, Any], answers: pd.DataFrame, counted: Mapping[str, Any]) -> dict[str, Any]:
    calibration = (arm["probabilities"] or {}).get("calibration_by_group") or {}
    made = {
        "n": arm["n"],
        "coverage": _interval(arm["coverage"], arm["coverage_low"], arm["coverage_high"]),
        **{
            name: {key: arm[metric].get(key) for key in (*_ENDS, "verdict")}
            for name, metric in _METRICS.items()
        },
        "informed": informedness(answers["answer"].eq("yes"), answers["label"].eq("yes")),
        "calibration": {
            group: _interval(each["difference"], each["low"], each["high"])
            for group, each in calibration.items()
        },
        "flips": [each | _interval(each["rate"], *each["interval"]) for each in arm["flips"] or ()],
        "probes": arm["probes"] or [],
    }
    if (other := counted.get("wordings", {}).get("negation")) and other["n"]:
        share = other["contradictions"] / other["n"]
        made["contradictions"] = _interval(share, *map(float, wilson(share, other["n"])))
    return made


def _interval(*numbers: float | None) -> dict[str, float | None]:
    return dict(zip(_ENDS, numbers, strict=True))


def informedness(yes: "pd.Series[bool]", label: "pd.Series[bool]") -> dict[str, float | None]:
    """True less false positive rate, 0 for a coin or a constant, by Wilson's limits of both (MOVER)."""
    p, n = np.array([[yes[label == each].mean(), (label == each).sum()] for each in (True, False)]).T
    low, high = wilson(p, n)
    value, below, above = (
        p[0] - p[1],
        np.hypot(p[0] - low[0], high[1] - p[1]),
        np.hypot(high[0] - p[0], p[1] - low[1]),
    )
    return _interval(value, value - below, value + above)
