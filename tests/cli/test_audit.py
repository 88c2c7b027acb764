"""`fwc-llm audit`: predictions from elsewhere, several attributes, and bad input named with exit
code 2.
"""

import re
from html import unescape
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.random import Generator

import fwc_llm
from fwc_llm import audit
from fwc_llm.metrics.records import TRUTH, Records
from tests.command import Run, corpus, peak, read_json
from tests.data.tables import cycled, write_csv

USUAL = "--answer said --label was --protected race"


def statistics(fwc: Run, line: str, *words: object) -> tuple[dict[str, Any], Records]:
    """What `--json` says of the one attribute: facts, and records."""
    document = fwc(line, *words, "--json", code=0).json
    ((attribute, facts),) = document["statistics"].items()
    return facts, Records.read(document["records"], attribute)


def test_replies_are_parsed_and_labels_may_have_words_of_their_own(
    fwc: Run, tmp_path: Path
) -> None:
    lines = [
        'F,good,"No determination can be made.",deny',
        "F,good,**Answer: Yes**,approve",
        "F,bad,no,deny",
        'M,bad,"<think>no</think>Yes, because",approve',
        "M,good,\"I'm sorry, I can't help\",refer",
        "M,bad,No.,deny",
    ]
    path = tmp_path / "replies.csv"
    path.write_text("\n".join(["sex,was,reply,decision", *lines * 5]) + "\n")
    words = f"audit {path} --protected sex --label was --positive-label good"
    facts, found = statistics(fwc, f"{words} --reply reply")
    assert found.of("coverage", "answers").value == pytest.approx(4 / 6)
    assert facts["arms"][0]["unparsed"] == {"other": 5, "refused": 5}
    decided = f"{words} --answer decision --positive-answer approve"
    _, found = statistics(fwc, f"{decided} --negative deny,refer")
    assert found.of("coverage", "answers").value == 1.0
    assert found.of("accuracy", "answers").value == pytest.approx(3 / 6)
    both = fwc(f"{words} --reply reply --answer decision", code=2)
    assert "--reply" in both.line
    said = (
        path.read_text()
        .replace("Yes", "Bewilligt")
        .replace("no,", "Abgelehnt,")
        .replace("No.", "abgelehnt")
    )
    path.write_text(said)
    german = f"{words} --reply reply --positive-answer bewilligt"
    _, found = statistics(fwc, f"{german} --negative abgelehnt")
    assert found.of("coverage", "answers").value == pytest.approx(4 / 6)
    assert "--negative" in fwc(german, code=2).line


def test_local_law_144_whole_by_hand(fwc: Run, tmp_path: Path) -> None:
    """F 20, M 29 and one without answer, X 1, unknown 1: 52 people, whose median score is 3.045."""
    people = [
        ("F", 10, 4, 3.0),
        ("F", 10, 2, 1.0),
        ("M", 20, 10, 4.0),
        ("M", 9, 3, 2.0),
        ("X", 1, 1, 9.0),
    ]
    lines = [
        f"{sex},{('no', 'yes')[k < yes]},{least + k / 100}"
        for sex, n, yes, least in people
        for k in range(n)
    ]
    path = tmp_path / "people.csv"
    table = tmp_path / "ll.csv"
    written = tmp_path / "audit.json"
    path.write_text(
        "\n".join(["sex,hired,fit", *lines, "M,,2.5", "unknown,no,0.5"]) + "\n"
    )
    words = "--answer hired --protected sex --score fit --force -o"
    words = f"audit {path} {words} {written}"

    def rows(options: str = "") -> dict[str, dict[str, str]]:
        fwc(f"{words} --ll144 {table} {options}", code=0)
        frame = pd.read_csv(table, dtype=str, keep_default_na=False)
        return {one["category"]: one for one in frame.to_dict("records")}

    names = (
        "applicants",
        "selection_rate",
        "impact_ratio",
        "scoring_rate",
        "scoring_impact_ratio",
    )
    out = rows("--small exclude --because 'One person.'")
    assert {
        sex: tuple(one[name] for name in (*names, "rates_of"))
        for sex, one in out.items()
    } == {
        "F": (
            "20",
            "0.3",
            str(round(6 / 20 / (13 / 29), 4)),
            "0.25",
            str(5 / 20 / (20 / 30)),
            "applicants",
        ),
        "M": (
            "30",
            str(round(13 / 29, 4)),
            "1.0",
            str(round(20 / 30, 4)),
            "1.0",
            "those answered",
        ),
        "X": ("1", "1.0", "", "1.0", "", "applicants"),
        "unknown": ("1", "", "", "", "", ""),
    }
    assert (
        out["X"]["note"]
        == "left out: under 2 % of the rows (1.92 %); reason: One person."
    )
    assert rows()["X"]["note"] == "under 2 % of the rows, kept"
    kept = rows("--small keep --about 'source=HR <b>' --about data_kind=historical")
    assert [kept[sex]["impact_ratio"] for sex in "FMX"] == ["0.3", "0.4483", "1.0"]
    assert "--because" in fwc(f"{words} --small exclude").line
    assert "'sauce'" in fwc(f"{words} --about sauce=HR").line
    page = tmp_path / "ll.html"
    told = fwc(f"{words} --ll144 {page} --about 'source=HR <b>'", code=0).err
    assert "in force" in told
    assert "(--about KEY=TEXT): population (Whom the rows speak of); collected" in told
    for part in (
        "HR &lt;b&gt;",
        r"distribution of the tool, §.5.303.\(a\)</th>.*not stated",
    ):
        assert re.search(part, page.read_text())
    published = re.sub(r"<style>.*?</style>", "", page.read_text(), flags=re.S)
    assert not re.search(
        r"--\w|\d{4}-\d\d-\d\d|in force|fwc-llm", published
    )  # for its maker
    assert published.count("category is not known") == 1
    again = pd.concat(
        [
            pd.read_csv(path, dtype=str).assign(id=np.arange(52), time=time)
            for time in range(2)
        ]
    )
    again.to_csv(tmp_path / "again.csv", index=False)
    table.unlink()
    report = tmp_path / "again.html"
    repeated = words.replace(str(path), str(tmp_path / "again.csv"))
    options = f"--row id --repeat time --ll144 {table} --report {report}"
    outcome = fwc(f"{repeated} {options}")
    assert (outcome.code, table.exists()) == (2, False)
    refused = read_json(written)["ll144"]["refused"]
    cause = "again.csv has rows that were asked about again"
    assert re.search(f"{cause}.* one row for each applicant", refused)
    assert f"No table: {cause}" in report.read_text()


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ("--positive High,Medium", ""),
        ("--positive High", "others mean no (--others no) or neither"),
        ("--positive High --others no", ""),
        ("--positive High --positive-answer High,Medium --others no", ""),
        ("--positive Hgih", "did you mean 'High'"),
    ],
)
def test_answers_and_labels_with_words_of_their_own_have_a_meaning_each(
    fwc: Run, tmp_path: Path, options: str, refusal: str
) -> None:
    said = ["High", "Medium", "Low"]
    frame = cycled(60, sex="fm", said=said, was="00011")
    path = write_csv(tmp_path / "t.csv", frame)
    call = f"audit {path} --answer said --label was --protected sex {options}"
    if refusal:
        assert refusal in fwc(call, code=2).err
        return
    facts, _ = statistics(fwc, call)
    assert 'was: yes = "1" (24), no = "0" (36).' in facts["notes"]


def test_negative_may_list_the_values_of_both_columns(fwc: Run, tmp_path: Path) -> None:
    said = ["high", "mid", "low"]
    frame = cycled(54, sex="fm", said=said, was=["good", "bad", "unclear"])
    path = write_csv(tmp_path / "t.csv", frame)
    call = (
        f"audit {path} --answer said --label was --protected sex --positive-answer high"
    )
    options = "--positive-label good --negative mid,low,bad --others drop"
    facts, found = statistics(fwc, f"{call} {options}")
    assert 'said: yes = "high" (18), no = "mid" (18), "low" (18).' in facts["notes"]
    assert found.of("selection_rate", "answers", "f").value == pytest.approx(1 / 2)


THREE = "sex,said\n" + "".join(
    f"{sex},{said}\n" * n
    for sex, said, n in (
        ("f", "approved", 20),
        ("f", "refused", 30),
        ("f", "referred", 10),
        ("m", "approved", 30),
        ("m", "refused", 10),
        ("m", "referred", 20),
    )
)


def test_all_that_is_to_be_said_of_answers_and_labels_is_asked_at_once(
    fwc: Run, tmp_path: Path
) -> None:
    """Three decisions; two outcomes, one without a usual meaning, and some unknown."""
    path = tmp_path / "three.csv"
    outcomes = ["repaid", "repaid", "default", ""] * 30
    head, *lines = THREE.split()
    rows = [f"{line},{was}" for line, was in zip(lines, outcomes, strict=True)]
    path.write_text("\n".join([f"{head},was", *rows]))
    call = f"audit {path} --answer said --label was --protected sex --min-group 1"
    asked = fwc(call, code=2).line
    remedies = ["--others drop", "--negative default", "--missing drop"]
    assert all(remedy in asked for remedy in remedies)
    fwc(" ".join([call, *remedies]), code=0)


@pytest.mark.parametrize(
    ("options", "rates", "words"),
    [
        ("--positive approved --others drop", (20 / 50, 30 / 40), "f 10"),
        ("--positive approved --others no", (20 / 60, 30 / 60), ""),
        ("--positive approved --negative refused,referred", (20 / 60, 30 / 60), ""),
        ("--positive approved,referred --negative refused", (30 / 60, 50 / 60), ""),
    ],
)
def test_three_decisions_are_read_as_task_files_read_them(
    fwc: Run, tmp_path: Path, options: str, rates: tuple[float, float], words: str
) -> None:
    path = tmp_path / "three.csv"
    path.write_text(THREE)
    call = f"audit {path} --answer said --protected sex {options}"
    facts, found = statistics(fwc, call, "-o", tmp_path / "audit.json")
    told = [found.of("selection_rate", "answers", group).value for group in "fm"]
    assert told == pytest.approx(rates)
    assert words in " ".join(facts["notes"])
    fwc("verify", tmp_path, code=0)
    keys: dict[str, Any] = dict(re.findall(r"--(\w+) (\S+)", options))
    for name in keys.keys() & {"positive", "negative"}:
        keys[name] = keys[name].split(",")
    frame = pd.read_csv(path)
    audited = fwc_llm.audit(frame, answer="said", protected="sex", **keys).records
    assert audited.of("selection_rate", "answers", "f").value == pytest.approx(rates[0])


def test_people_of_unknown_category_are_one_group_without_a_ratio(
    fwc: Run, tmp_path: Path
) -> None:
    sexes = ["Female"] * 90 + ["Male"] * 90
    sexes += ["Not Disclosed", "keine Angabe", "N/A", "Rückfrage"] * 5
    path = tmp_path / "people.csv"
    law = tmp_path / "law.csv"
    hired = [k % (3 if k < 90 else 2) == 0 for k in range(200)]
    pd.DataFrame({"sex": sexes, "hired": hired, "score": range(200)}).to_csv(path)
    call = f"audit {path} --answer hired --protected sex --unknown Rückfrage"
    notes = statistics(fwc, f"{call} --score score --ll144 {law}")[0]["notes"]
    assert "'Not Disclosed', 'keine Angabe', 'N/A'" in " ".join(notes)
    rows = pd.read_csv(law, dtype=str, keep_default_na=False).set_index("category")
    assert list(rows["applicants"]) == ["90", "90", "20"]
    assert list(rows["above_median"]) == ["0", "80", "20"]
    assert list(rows["impact_ratio"]) == ["0.6667", "1.0", ""]


def test_arms_and_repeats_are_compared(fwc: Run, tmp_path: Path) -> None:
    path = tmp_path / "models.csv"
    lines = [
        f"{row},{row % 2},{row // 2 % 2},{model},{run},{(row + run) % share == 0:d}"
        for model, share in (("a", 2), ("b", 3))
        for run in range(2)
        for row in range(80)
    ]
    path.write_text("\n".join(["id,sex,label,model,run,said", *lines]))
    words = f"audit {path} --answer said --label label --protected sex --arm model"
    assert "needs 'row'" in fwc(words).line
    words += " --repeat run --row id"
    assert "There is one arm" not in fwc(words, code=0).out
    path.write_text("\n".join(["id,sex,label,model,run,said", *lines[1:]]))
    assert "the arm 'a' lacks the row '0'" in fwc(words).line


@pytest.mark.parametrize(("content", "options", "words"), corpus("mistakes/audits"))
def test_bad_input_is_named(
    fwc: Run, tmp_path: Path, content: str | None, options: str, words: str
) -> None:
    path = tmp_path / "bad.csv"
    if content is not None:
        path.write_text(content)
    outcome = fwc(f"audit {path} {USUAL} {options}", code=2)
    assert re.search(words, outcome.line), outcome.line
    if content is not None:
        twice = fwc(f"audit {path} --answer x --label x --protected race", code=2).line
        assert "the same column, 'x'" in twice


def test_the_first_sentence_follows_the_conditions(fwc: Run, tmp_path: Path) -> None:
    k = np.arange(800)
    frame = pd.DataFrame(
        {"id": k // 2, "model": np.where(k % 2, "new", "old"), "sex": k // 2 % 2}
    )
    frame["said"] = np.where(
        frame["model"] == "new", k // 4 % 2, k // 4 % 10 < 2 + 6 * frame["sex"]
    )
    path = tmp_path / "two.csv"
    page = tmp_path / "two.html"
    frame.astype({"said": int}).to_csv(path, index=False)
    words = f"audit {path} --answer said --protected sex --arm model --row id"
    gated = f"{words} --report {page} --fail-if 'dp_gap > 0.3'"
    out = fwc(gated, code=5).out
    for text in (" ".join(out.split()), page.read_text()):
        assert "Within the limits: new. " in text


def test_a_semicolon_table_without_labels(fwc: Run, tmp_path: Path) -> None:
    """Rates, ratios, four fifths and intervals, from what a spreadsheet of Western Windows
    writes.
    """
    k = np.arange(400)
    frame = pd.DataFrame(
        {"Geschlecht": np.where(k % 2, "männlich", "weiblich"), "Abteilung": k // 200}
    )
    frame["Eingeladen"] = np.where(k % 10 < 3 + 3 * (k % 2), "Ja", "Nein")
    frame["Gewicht"] = [f"{1 + n % 3 / 2:.1f}".replace(".", ",") for n in k // 10]
    frame.loc[[0, 1], "Geschlecht"] = ""
    frame.loc[2, "Gewicht"] = ""
    path = tmp_path / "export.csv"
    out = tmp_path / "audit.json"
    page = tmp_path / "audit.html"
    path.write_bytes(frame.to_csv(index=False, sep=";").encode("cp1252"))
    words = f"audit {path} --answer Eingeladen --protected Geschlecht --positive Ja"
    words += " --weight Gewicht --given Abteilung --missing drop --verbose"
    words += f" -o {out} --report {page}"
    outcome = fwc(f"{words} --fail-if 'accuracy < 0.5' --fail-if 'fpr_gap > 0'")
    assert outcome.code == 6, outcome.err
    for said in (
        "four fifths",
        "2 of 400 rows have no Geschlecht and are of the group 'unknown'.",
        "no labels",
    ):
        assert said in outcome.words, said
    lost = "1 of 400 rows have no Gewicht and are left out: weiblich 1."
    assert outcome.out.startswith(lost)
    assert f'<ul class="findings"><li>{lost}' in page.read_text()
    document = read_json(out)
    assert document["statistics"]["Geschlecht"]["labelled"] is False
    found = Records.read(document["records"], "Geschlecht")
    assert found.of("dp_gap", "answers").verdict == "differs"
    assert found.of("dp_gap", "answers", scope="within strata").known
    assert not found.find("accuracy", "answers").known
    text = page.read_text()
    assert "None" not in re.sub(r"<script.*?</script>", "", text, flags=re.S)


@pytest.fixture
def shares(tmp_path: Path) -> Path:
    """Two hundred rows with P(yes) of two decimals, two of them without; as CSV and as Parquet."""
    rng = np.random.default_rng(0)
    sex = np.array(["f", "m"])[np.arange(200) % 2]
    hired = rng.integers(0, 2, 200)
    p = np.round(np.clip(0.4 + 0.2 * hired + rng.normal(0, 0.1, 200), 0, 1), 2)
    p[[3, 5]] = np.nan
    frame = pd.DataFrame({"sex": sex, "hired": hired.astype(bool), "p": p})
    frame.to_csv(tmp_path / "p.csv", index=False)
    frame.to_parquet(tmp_path / "p.parquet")
    return tmp_path / "p.csv"


PROBABLE = "--p-yes p --label hired --protected sex"


def test_probabilities_are_audited_from_any_table(
    fwc: Run, shares: Path, tmp_path: Path
) -> None:
    found = []
    for suffix in (".csv", ".parquet"):
        out = tmp_path / f"{suffix}.json"
        page = tmp_path / f"{suffix}.html"
        audited = f"audit {shares.with_suffix(suffix)} {PROBABLE} --verbose"
        outcome = fwc(f"{audited} -o {out} --report {page}", code=0)
        for words in ("AUC gap", "Calibration of P(yes) per"):
            assert words in outcome.out
        assert (
            "rows lie just at 0.5; they count as yes; 2 have no P(yes)" in outcome.err
        )
        document = read_json(out)
        found.append((document["statistics"], document["records"]))
        text = page.read_text()
        assert "200 decisions made elsewhere" in text
        assert "The examples" not in text
    assert found[0] == found[1]
    records = Records.read(found[0][1], "sex")
    assert records.of("coverage", "answers").value == pytest.approx(0.99)
    fwc(f"audit {shares} {PROBABLE} --report", tmp_path / "report.json", code=0)
    (run,) = read_json(tmp_path / "report.json")["runs"]
    assert run["records"] == found[0][1]


def test_a_threshold_decides(fwc: Run, shares: Path) -> None:
    known = pd.read_csv(shares).dropna()
    for threshold in (0.3, 0.61):
        line = f"audit {shares} {PROBABLE} --threshold {threshold}"
        _, found = statistics(fwc, line)
        right = ((known["p"] >= threshold) == known["hired"]).mean()
        assert found.of("accuracy", "answers").value == pytest.approx(right)


@pytest.mark.parametrize("form", ["{:.0f}%", "{:.1f} %", "{:.0f} percent"])
def test_shares_in_percent_are_shares(fwc: Run, tmp_path: Path, form: str) -> None:
    percents = [7 * k % 100 for k in range(100)]
    shares = [percent / 100 for percent in percents]
    for name, p in (("a", shares), ("b", [*map(form.format, percents)])):
        write_csv(tmp_path / f"{name}.csv", cycled(200, sex="01", p=p))
    for option in ("--p-yes", "--score"):
        found = [
            statistics(fwc, f"audit {tmp_path / name}.csv --protected sex {option} p")[
                1
            ]
            for name in "ab"
        ]
        assert [*found[0]] == [*found[1]]
    line = f"audit {tmp_path / 'b.csv'} --protected sex --answer p"
    assert "name probabilities: --p-yes" in fwc(line, code=2).line
    mixed = (tmp_path / "b.csv").read_text() + "\n1,0.5"
    (tmp_path / "b.csv").write_text(mixed)
    line = f"audit {tmp_path / 'b.csv'} --protected sex --p-yes p"
    assert "write numbers from 0 to 1 (0.87 for 87 %)" in fwc(line, code=2).line


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--label hired", "probabilities (--p-yes)"),
        ("--label hired --answer p", "name probabilities: --p-yes"),
        ("--answer hired --threshold 0.4", "leave out one of them"),
        (
            "--label hired --p-yes p --threshold nan",
            "--threshold nan is not from 0 to 1",
        ),
        ("--label hired --p-yes sex", "'sex' is not P(yes) in 200 of 200 rows"),
        ("--label hired --p-yes q", "there are sex, hired, p"),
        ("--label hired --p-yes p --report x.pdf", "is none of html, md, json, csv"),
    ],
)
def test_bad_probabilities_are_named(
    fwc: Run, shares: Path, options: str, words: str
) -> None:
    for path in (shares, shares.with_suffix(".parquet")):
        assert words in fwc(f"audit {path} --protected sex {options}", code=2).line


@pytest.mark.parametrize("name", ["answer", "row", "repeat", "arm", "p_yes", "reason"])
def test_a_protected_column_may_have_a_name_of_the_audit(
    fwc: Run, tmp_path: Path, name: str
) -> None:
    rates = []
    lines = "yes,yes,a,x\nno,yes,b,x\nyes,no,a,z\nno,no,b,x\n" * 5
    for title in (name, "other"):
        path = tmp_path / "p.csv"
        path.write_text(f"said,was,sex,{title}\n{lines}")
        call = f"audit {path} --answer said --label was --protected {title}"
        found = statistics(fwc, call)[1]
        rates.append(
            [found.of("selection_rate", "answers", group).value for group in "xz"]
        )
    assert rates[0] == rates[1] == pytest.approx([1 / 3, 1])


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the peak of memory is Linux's"
)
def test_fifty_thousand_answers_take_little_memory_and_show_a_sample(
    tmp_path: Path,
) -> None:
    from evals.bench.commands import made_up_answers

    table = tmp_path / "said.csv"
    page = tmp_path / "audit.html"
    peaks = []
    words = f"audit {table} --answer said --label was --protected sex,race --p-yes p"
    for answers in (500, 50_000):
        made_up_answers(answers).to_csv(table, index=False)
        page.unlink(missing_ok=True)
        peaks.append(peak(f"{words} --row id --report {page}")[1])
    assert peaks[1] - peaks[0] < 140_000  # kB
    text = page.read_text()
    assert len(text) < 5e6
    assert "20,000 of 50,000" in text


def test_several_attributes_have_one_next_step(fwc: Run, tmp_path: Path) -> None:
    rows = [
        f"{sex},{race},{answer}"
        for sex, race, answer in product("fm", "AB", (0, 1))
        for _ in range(300)
    ]
    path = tmp_path / "two.csv"
    path.write_text("\n".join(["sex,race,said", *rows, *["f,A,1"] * 900]) + "\n")
    audited = fwc(f"audit {path} --answer said --protected sex,race", code=0)
    overall = "Outside the limits: by sex, by race, by sex & race. From 3,300 rows."
    said = audited.words
    assert said.startswith(overall)
    call = f"audit {path} --answer said --protected sex,race --report"
    for page, heading in (("a.html", "by sex</h2>"), ("a.md", "## said, by sex")):
        fwc(f"{call} {tmp_path / page}")
        text = unescape((tmp_path / page).read_text())
        assert text.index(overall) < text.index(heading)
        assert text.count(overall) == text.count("Next: ") == 1
    assert said.count("Next: ") == said.count("who know these decisions") == 1


def test_what_is_said_holds_whatever_the_options_together(
    fwc: Run, tmp_path: Path
) -> None:
    """True answers and other readings are of the groups that gaps are of; words fit the cause
    and the arm.
    """
    path = tmp_path / "decisions.csv"
    lines = [
        f"{arm},{row},{'FM'[row % 2]},{'X' if row < 8 else 'Y'},{said},{was}"
        for row in range(400)
        for arm, rare in (("a", 5), ("b", 2))
        for said in [
            ""
            if row % 4 < 2 and row % 3
            else "yes"
            if row % 2 or row % rare == 0
            else "no"
        ]
        for was in ["yes" if row < 8 or row % 4 == 1 else "no"]
    ]
    path.write_text("\n".join(["arm,row,sex,small,said,was", *lines]) + "\n")
    words = f"audit {path} --answer said --label was --arm arm --row row"
    words += " --protected sex,small --against b"
    out = fwc(words, code=0).words
    assert "fairer than b" in out
    assert "fairer than a" not in out
    assert "answers are missing, and each may be a yes or a no: " in out
    assert "would settle it" in out
    assert (
        "Judged, though with fewer than 30 rows, because a gap takes two groups: X."
        in out
    )
    assert "Not judged, with fewer than 30 rows: F & X, M & X." in out
    document = fwc(words, "--json", code=0).json
    facts = document["statistics"]["sex & small"]
    found = Records.read(document["records"], "sex & small")
    judged = [group["group"] for group in facts["groups"] if group["judged"]]
    rates = [found.of("selection_rate", TRUTH, group).value for group in judged]
    assert len(rates) == 2 < len(facts["groups"])
    assert found.of("dp_gap", TRUTH).value == pytest.approx(max(rates) - min(rates))
    for arm in ("a", "b"):
        frame = pd.read_csv(path, keep_default_na=False).query(
            f"arm == '{arm}' and small == 'Y'"
        )
        as_no = (frame["said"] == "yes").groupby(frame["sex"]).mean()
        gap = found.of("dp_gap", arm, scope="unread replies as no")
        if gap.known:
            assert gap.value == pytest.approx(np.ptp(as_no))
    assert found.of("dp_gap", "a", scope="unread replies as no").known or gap.known


def test_python_json_and_csv_have_each_number_of_an_audit_once(
    rng: Generator, fwc: Run, tmp_path: Path
) -> None:
    columns = {
        "sex": rng.choice(["f", "m"], 400),
        "race": rng.choice(["a", "b"], 400),
        "was": rng.choice(["yes", "no"], 400),
        "said": rng.choice(["yes", "no"], 400),
    }
    frame = pd.DataFrame(columns)
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    words = f"audit {path} --answer said --label was --protected sex,race --json"
    report = tmp_path / "report.csv"
    document = fwc(words, "--report", report, code=0).json
    default = {(gate["run"], gate["condition"]) for gate in document["gates"]}
    limit = "dp_gap[answers] > 0.05"
    assert default == {(f"by {by}", limit) for by in ("sex", "race", "sex & race")}
    by_file = Records.read(document["records"], "sex & race")
    in_python = audit(frame, answer="said", label="was", protected=["sex", "race"])
    assert len(in_python.to_frame()) == len(by_file)
    for one, other in zip(in_python.records, by_file, strict=True):
        assert one.key == other.key
        assert one.value == pytest.approx(other.value, nan_ok=True)
    lines = pd.read_csv(report, keep_default_na=False, dtype=str)
    keys = lines[["arm", "against", "attribute", "group", "metric", "repeat", "scope"]]
    assert not keys.duplicated().any()
    assert len(lines) == len(by_file)
