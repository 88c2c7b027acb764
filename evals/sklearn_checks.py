"""What scikit-learn's own checks of estimators say of `FairCoreset`.

    python -m evals.sklearn_checks

Writes evals/results/sklearn-checks.{json,md}. The checks call `fit(X, y)`, or `fit(X)`, with
outcomes of many kinds and without protected levels. So the estimator goes through them three times:
as it is without a parity limit; with the limit, as a subclass that makes outcomes and levels of the
rows' positions; and as it is with the limit, where every check that fits fails, by name.
"""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import sklearn
from sklearn.utils.estimator_checks import check_estimator

from evals.record import RESULTS, command_line, markdown, write
from fwc_llm.coreset import FairCoreset

COMMAND = "python -m evals.sklearn_checks"
NO_LEVELS = "the check fits without `sensitive`, which a parity limit needs"
DRAWN = (
    "the start draws rows at random, and draws otherwise from a row of weight 2 than from that row "
    "twice"
)


def by_position(X: Any, y: Any) -> tuple[Any, np.ndarray]:
    """Outcomes and protected levels by the rows' positions, so that every cell has rows; no y
    stays none.
    """
    place = np.arange(len(np.asarray(X)) if not hasattr(X, "shape") else X.shape[0])
    return None if y is None else place // 2 % 2, place % 2


class PositionedCoreset(FairCoreset):
    """`FairCoreset` for checks that know no protected levels."""

    def fit(
        self,
        X: Any,
        y: Any = None,
        sensitive: Any = None,
        candidates: Any = None,
        sample_weight: Any = None,
        *,
        progress: Any = None,
    ) -> Self:
        """Fit with outcomes and levels by position."""
        return super().fit(X, *by_position(X, y), sample_weight=sample_weight)

    def score(
        self, X: Any, y: Any = None, sensitive: Any = None, sample_weight: Any = None
    ) -> float:
        """Score with outcomes and levels by position."""
        return super().score(X, *by_position(X, y), sample_weight)


# Every check that needs a fit to succeed.
_FITTED = (
    "check_fit_score_takes_y",
    "check_estimators_overwrite_params",
    "check_dont_overwrite_parameters",
    "check_estimators_fit_returns_self",
    "check_readonly_memmap_input",
    "check_n_features_in_after_fitting",
    "check_positive_only_tag_during_fit",
    "check_estimators_dtypes",
    "check_dtype_object",
    "check_pipeline_consistency",
    "check_estimators_nan_inf",
    "check_estimators_pickle",
    "check_f_contiguous_array_estimator",
    "check_transformer_data_not_an_array",
    "check_transformer_general",
    "check_transformer_preserve_dtypes",
    "check_transformer_n_iter",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_fit2d_1feature",
    "check_dict_unchanged",
    "check_fit_idempotent",
    "check_fit_check_is_fitted",
    "check_n_features_in",
    "check_fit2d_predict1d",
    "check_sample_weights_pandas_series",
    "check_sample_weights_not_an_array",
    "check_sample_weights_list",
    "check_sample_weights_shape",
    "check_sample_weights_not_overwritten",
    "check_sample_weight_equivalence_on_dense_data",
)


@dataclass(frozen=True)
class Case:
    """An estimator to be checked; `expected` are the checks that must fail, each with the
    reason.
    """

    name: str
    estimator: Any
    expected: dict[str, str]


def cases() -> list[Case]:
    """What is checked."""
    no_levels = dict.fromkeys(_FITTED, NO_LEVELS)
    drawn = {"check_sample_weight_equivalence_on_dense_data": DRAWN}
    return [
        Case(
            "`FairCoreset(4, epsilon=None)`",
            FairCoreset(4, epsilon=None, n_init=1),
            drawn,
        ),
        Case(
            "`FairCoreset(4)`, levels by position",
            PositionedCoreset(4, n_init=1),
            drawn,
        ),
        Case("`FairCoreset(8)`", FairCoreset(8, n_init=1), no_levels),
    ]


def run(case: Case) -> dict[str, Any]:
    """The checks of one case, counted; `failed` holds those that were not expected, with what
    they said.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(
            case.estimator,
            expected_failed_checks=case.expected,
            on_fail=None,
            on_skip=None,
        )
    names: dict[str, list[str]] = {
        "passed": [],
        "failed": [],
        "xfail": [],
        "skipped": [],
    }
    for one in found:
        text = one["check_name"]
        if one["status"] in ("failed", "skipped"):
            text += f": {str(one['exception']).splitlines()[0][:200]}"
        names[one["status"]].append(text)
    return {
        "case": case.name,
        "checks": len(found),
        **{status: len(names[status]) for status in ("passed", "xfail", "skipped")},
        "failed": names["failed"],
        "expected": {name: case.expected[name] for name in sorted(set(names["xfail"]))},
        "skipped_checks": names["skipped"],
    }


def report() -> dict[str, Any]:
    """All cases."""
    return {
        "command": COMMAND,
        "scikit-learn": sklearn.__version__,
        "cases": [run(case) for case in cases()],
    }


def as_markdown(found: dict[str, Any]) -> str:
    """The figures as a page."""
    counted = [
        [
            one["case"],
            one["checks"],
            one["passed"],
            one["xfail"],
            len(one["failed"]),
            one["skipped"],
        ]
        for one in found["cases"]
    ]
    skipped = sorted({line for one in found["cases"] for line in one["skipped_checks"]})
    unexpected = [
        f"{one['case']}: {line}" for one in found["cases"] for line in one["failed"]
    ]
    reasons: dict[str, set[str]] = {}
    for one in found["cases"]:
        for name, reason in one["expected"].items():
            reasons.setdefault(reason, set()).add(name)
    lists = {
        f"Expected to fail, because {reason}": [f"`{name}`" for name in sorted(names)]
        for reason, names in sorted(reasons.items())
    }
    lists |= {"Skipped by scikit-learn": skipped} | (
        {"Failures": unexpected} if unexpected else {}
    )
    return (
        f"""# scikit-learn's checks of estimators

Made by `{found["command"]}`, with scikit-learn {found["scikit-learn"]}.

{markdown(["estimator", "checks", "pass", "fail as expected", "fail", "skipped"], counted)}
The checks call `fit(X, y)` or `fit(X)`. *Levels by position* is a subclass that gives rows
outcomes and protected levels by their positions. The last line is the estimator as it
is, with a parity limit: every check that needs a fit to succeed fails there, and only there.

"""
        + "\n\n".join(
            "\n* ".join([f"{title}:\n", *lines]) for title, lines in lists.items()
        )
        + "\n"
    )


def main() -> None:
    """Run and write."""
    parser = command_line(__doc__)
    parser.add_argument(
        "--results",
        type=Path,
        default=RESULTS,
        help="where sklearn-checks.json and sklearn-checks.md go",
    )
    folder = parser.parse_args().results
    found = report()
    write("sklearn-checks", found, as_markdown(found), folder)
    print(as_markdown(found))


if __name__ == "__main__":
    main()
