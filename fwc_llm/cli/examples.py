"""The examples at the end of each command's help. Tests parse every one of them."""

EXAMPLES: dict[str, tuple[str, ...]] = {
    "eval": (
        "fwc-llm eval",
        "fwc-llm eval --model gpt-6-luna --shots zero,balanced,fwc --repeats 5 --dry-run",
        "fwc-llm eval --task my.toml --model smollm2 --shots zero,fwc --out runs/mine",
        "fwc-llm eval experiment.toml --json",
    ),
    "shots": (
        "fwc-llm shots --strategy fwc --m 16 -o shots.json",
        "fwc-llm shots --task census --compare",
    ),
    "tune": ("fwc-llm tune --task adult --model gpt-6-luna --target-dp 0.1 --max-loss 3 --out runs/tuned",),
    "prompt": ("fwc-llm prompt --task census --shots balanced --row 3",),
    "tasks": ("fwc-llm tasks", "fwc-llm tasks --json"),
    "power": ("fwc-llm power --task adult --n-test 200 --repeats 5 --detect 0.1",),
    "runs": ("fwc-llm runs", "fwc-llm runs archive --json"),
    "report": ("fwc-llm report runs/luna", "fwc-llm report runs/luna runs/mini -o both.md"),
    "compare": ("fwc-llm compare runs/luna runs/mini",),
    "audit": (
        "fwc-llm audit predictions.csv --answer said --label was --protected sex,race",
        "fwc-llm audit scored.parquet --p-yes p --label was --protected sex --report audit.html",
    ),
    "gate": ('fwc-llm gate runs/luna --fail-if "dp[fwc] > 0.1" --junit gates.xml',),
    "rescore": ("fwc-llm rescore runs/luna",),
    "serve-surrogate": ("fwc-llm serve-surrogate --port 8000",),
    "warm-up": ("fwc-llm warm-up",),
    "doctor": ("fwc-llm doctor", "fwc-llm doctor --base-url http://127.0.0.1:8000/v1"),
    "task init": ("fwc-llm task init data.csv --protected sex --outcome income",),
    "task check": ("fwc-llm task check data.toml",),
    "task copy": ("fwc-llm task copy adult -o mine.toml",),
    "template init": ("fwc-llm template init wording --from paper",),
}


def epilog(command: str) -> str:
    """The end of a command's help: one line an example, its brackets as text and not as markup."""
    lines = (line.replace("[", r"\[") for line in EXAMPLES[command])
    return "\n\n".join(("Examples:" if len(EXAMPLES[command]) > 1 else "Example:", *lines))
