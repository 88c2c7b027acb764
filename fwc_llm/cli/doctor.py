"""`fwc-llm doctor`: whether this installation can do its work, and what to do where it cannot."""

from typing import Annotated

import typer

from fwc_llm.cli.as_json import Json, print_json


def doctor(
    base_url: Annotated[
        str | None, typer.Option(help="Also connect to this OpenAI-compatible server, without a key.")
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="The variable that holds the service's key: it must be set.")
    ] = None,
    online: Annotated[
        bool, typer.Option("--online", help="Also connect to OpenAI, without a key. Else nothing is sent.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check versions, extras, data, the compiled solver and keys, and say what to do.

    `ok` is well, `note` could be there and is not, `broken` keeps something from working: then the exit code
    is 2. Of keys only their presence is told.
    """
    from dataclasses import asdict

    from fwc_llm.cli.console import out, working
    from fwc_llm.cli.health import examine
    from fwc_llm.errors import FwcError
    from fwc_llm.version import __version__

    with working("looking"):
        found = list(examine(base_url, api_key_env, online))
    broken = sum(one.state == "broken" for one in found)
    if as_json:
        print_json(
            {
                "format": "fwc-llm-doctor/1",
                "version": __version__,
                "broken": broken,
                "checks": [asdict(one) for one in found],
            }
        )
    else:
        width = max(len(one.check) for one in found)
        for one in found:
            todo = f"; {one.todo}" if one.todo else ""
            out.print(
                f"{one.state:<6}  {one.check:<{width}}  {one.found}{todo}", soft_wrap=True, highlight=False
            )
    if broken:
        raise FwcError(f"{broken} of {len(found)} checks found something broken: see above what to do")
