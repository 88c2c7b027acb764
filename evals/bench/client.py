"""The client against a bare loop over the SDK, and its memory over many rows.

    python -m evals.bench.client [--requests 1000] [--rounds 9] [--rows 50000] [--write]

A canned server runs in a separate process. In each round both sides send the same number of requests at
concurrency 64, one side after the other. The bare loop calls `client.post` of the OpenAI SDK and keeps
nothing; ours hashes, asks, reads, parses and journals every reply. The ratio compares the two sides of one
round. The processor time per request is also shown, as other work on the machine disturbs it less.
`--write` records the numbers in evals/results/client.md and client.json.
"""

import asyncio
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator
from typing import Any

from evals.record import command_line, describe_machine, markdown, write
from fwc_llm.models.base import Message
from fwc_llm.models.openai.chat import ChatModel
from fwc_llm.progress import Progress
from fwc_llm.runs.execute import Execution
from fwc_llm.runs.journal import Journal, PlannedCall

CONCURRENCY = 64
_EXAMPLE = (
    "age 39 years, work class Private, education Bachelors, marital status Never-married, occupation "
    "Adm-clerical, relationship Not-in-family, race White, sex Male, hours per week 40, country United-States"
)


def prompt(messages: int, row: int) -> list[Message]:
    """A prompt of one message, or of instruction, 16 examples with their answers, and the row (34)."""
    question: Message = {
        "role": "user",
        "content": f"Row {row}: {_EXAMPLE}. More than 50K? Answer yes or no.",
    }
    if messages == 1:
        return [question]
    examples: list[Message] = []
    for number in range((messages - 2) // 2):
        examples.append({"role": "user", "content": f"{_EXAMPLE}, capital gain {number}. More than 50K?"})
        examples.append({"role": "assistant", "content": "Yes" if number % 2 else "No"})
    return [{"role": "system", "content": "Answer yes or no."}, *examples, question]


async def bare_loop(url: str, messages: int, n: int) -> float:
    """Requests a second of 64 workers that only call the SDK."""
    import openai
    from openai.types.chat import ChatCompletion

    client = openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=0)
    rows = iter(range(n))

    async def work() -> None:
        for row in rows:
            body: dict[str, Any] = {
                "model": "canned", "messages": prompt(messages, row), "temperature": 0, "max_tokens": 20,
            }  # fmt: skip
            reply = await client.post("/chat/completions", body=body, cast_to=ChatCompletion)
            if reply.choices[0].message.content != "Yes":
                raise RuntimeError("the canned server answered something else")

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    elapsed = time.perf_counter() - began
    await client.close()
    return n / elapsed


def calls(messages: int, n: int) -> Iterator[PlannedCall]:
    """The same prompts as calls of a run."""
    return (PlannedCall("fwc", 0, f"row:{row}", "", prompt(messages, row)) for row in range(n))


async def ours(url: str, messages: int, n: int, progress: Any = None) -> float:
    """Requests a second of a run with its journal."""
    model = ChatModel("canned", base_url=url, concurrency=CONCURRENCY)
    with tempfile.TemporaryDirectory() as folder, Journal(folder) as journal:
        began = time.perf_counter()
        outcome = await Execution(model, calls(messages, n), journal, CONCURRENCY, progress, n).run()
        elapsed = time.perf_counter() - began
    if outcome.done != n:
        raise RuntimeError(f"{outcome.errors} of {n} requests have no reply")
    return n / elapsed


def peak_megabytes() -> float:
    """The largest resident size of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


async def memory(url: str, rows: int) -> tuple[float, float]:
    """Peak megabytes after 1,000 rows and after all of one run with 34-message prompts."""
    early = 0.0

    def watch(progress: Progress) -> None:
        nonlocal early
        if not early and progress.done >= 1000:
            early = peak_megabytes()

    await ours(url, 34, rows, watch)
    return early, peak_megabytes()


def measure(url: str, requests: int, rounds: int) -> dict[str, Any]:
    """Both sides in turn, for both sizes of prompt; the first round is a warm-up."""
    result = {}
    for messages in (1, 34):
        bare, mine = [], []
        for number in range(rounds + 1):
            pair = timed(bare_loop(url, messages, requests)), timed(ours(url, messages, requests))
            if number:
                bare.append(pair[0])
                mine.append(pair[1])
        ratios = [one[0] / other[0] for one, other in zip(mine, bare, strict=True)]
        result[f"{messages} message{'s' if messages > 1 else ''}"] = {
            "bare_loop_per_second": round(statistics.median(rate for rate, _ in bare)),
            "ours_per_second": round(statistics.median(rate for rate, _ in mine)),
            "bare_loop_cpu_ms": round(statistics.median(cpu for _, cpu in bare) / requests * 1e3, 3),
            "ours_cpu_ms": round(statistics.median(cpu for _, cpu in mine) / requests * 1e3, 3),
            "ratio": round(statistics.median(ratios), 3),
            "ratios": [round(ratio, 3) for ratio in ratios],
        }
    return result


def timed(work: Coroutine[Any, Any, float]) -> tuple[float, float]:
    """Requests a second, and the processor seconds of this process."""
    began = time.process_time()
    rate = asyncio.run(work)
    return rate, time.process_time() - began


def main() -> None:
    """Run the benchmark and print it."""
    parser = command_line(__doc__)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--rows", type=int, default=50_000, help="rows of the run whose memory is watched")
    parser.add_argument("--write", action="store_true", help="record the numbers in evals/results")
    arguments = parser.parse_args()
    command = [sys.executable, "-m", "evals.bench.canned_server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            if server.stdout is None:
                raise RuntimeError("the canned server has no output")
            url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
            early, late = asyncio.run(memory(url, arguments.rows))  # first: peaks only rise
            speed = measure(url, arguments.requests, arguments.rounds)
        finally:
            server.kill()
    result = {
        "command": f"python -m evals.bench.client --requests {arguments.requests} "
        f"--rounds {arguments.rounds} --rows {arguments.rows}",
        "machine": describe_machine("openai"),
        "concurrency": CONCURRENCY,
        "speed": speed,
        "memory": {
            "rows": arguments.rows,
            "peak_megabytes_at_1000_rows": round(early, 1),
            "peak_megabytes_at_the_end": round(late, 1),
            "growth_megabytes": round(late - early, 1),
        },
    }
    print(report(result))
    if arguments.write:
        write("client", result, report(result))


def report(result: dict[str, Any]) -> str:
    """The numbers as Markdown."""
    memory, lines = result["memory"], []
    for name, speed in result["speed"].items():
        bare = f"{speed['bare_loop_per_second']:,} ({speed['bare_loop_cpu_ms']:.2f})"
        mine = f"{speed['ours_per_second']:,} ({speed['ours_cpu_ms']:.2f})"
        rounds = ", ".join(f"{ratio:.2f}" for ratio in speed["ratios"])
        lines.append([name, bare, mine, f"{speed['ratio']:.2f}", rounds])
    head = ["prompt", "bare loop, requests/s (CPU ms)", "ours with journal (CPU ms)", "median ratio"]
    return f"""# The client's speed and memory

Made by `{result["command"]}` on {result["machine"]}; a canned server on loopback, concurrency \
{result["concurrency"]}.

{markdown([*head, "rounds"], lines)}
Memory: peak {memory["peak_megabytes_at_1000_rows"]:.1f} MB after 1,000 rows, \
{memory["peak_megabytes_at_the_end"]:.1f} MB after {memory["rows"]:,} (34 messages each): \
{memory["growth_megabytes"]:+.1f} MB.
"""


if __name__ == "__main__":
    main()
