"""`fwc-llm serve-surrogate`: the surrogate as a small OpenAI-compatible server."""

from fwc_llm.cli.flags import command, option


@command("serve-surrogate")
def serve_surrogate(
    port: int = option("Port to listen on; 0: any free one.", default=8000),
    host: str = option(
        "Address to listen on; the default is not reachable from other machines.", default="127.0.0.1"
    ),
    temperature: float = option(
        "Default temperature of requests; 0 always gives the likelier answer.", default=0.0
    ),
    seed: int = option("Default seed of requests.", default=0),
    name: str = option(
        "Second model name, such as gpt-4; answers stay marked simulated.",
        "--as",
        default="surrogate",
        metavar="NAME",
    ),
    require_key: str | None = option(
        "Environment variable with a key that requests must send.", metavar="VARIABLE"
    ),
) -> None:
    """Serve the simulated model "surrogate" over HTTP, to test clients without key or network."""
    import os

    from fwc_llm.cli.console import notes, write
    from fwc_llm.errors import FwcError
    from fwc_llm.models.surrogate.model import Surrogate
    from fwc_llm.models.surrogate.server import SurrogateServer

    key = None
    if require_key is not None and not (key := os.environ.get(require_key)):
        raise FwcError("--require-key names an environment variable that is not set: set it")
    with SurrogateServer(Surrogate(temperature, seed), host, port, key, name) as server:
        write(f"{server.url}\n")  # the only line on standard output, for scripts
        notes(
            'The model "surrogate" is a simulation, never a measurement of any model. Ctrl-C stops it. Try:',
            f"  fwc-llm eval --model {name} --base-url {server.url}",
            "It also answers --api decisions, --api systemone and the Responses API.",
        )
        try:
            server.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            notes("stopped")
