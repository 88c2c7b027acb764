"""A cluster's workers: whether they can do the work, who holds what, how far they are, what went wrong."""

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pkgutil import resolve_name
from typing import Any
from uuid import uuid4

from fwc_llm.coreset.streaming.cluster.graph import TOP, Reduction, in_words, unreadable
from fwc_llm.coreset.streaming.cluster.partitions import Partitions
from fwc_llm.errors import InputError
from fwc_llm.version import __version__

_RETRIES = 2  # of a task that fails; one whose worker dies is started again by Dask
_LOOK = 0.2  # seconds between two looks at the work
_WORKERS = 5.0  # seconds between two looks at the workers
_VERSION = "fwc_llm.version:__version__"


def current_client() -> Any:
    """The current client of `distributed`; None without one, or where Dask's settings name a scheduler."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    import dask

    if dask.config.get("scheduler", None) not in (None, "dask.distributed", "distributed"):
        return None
    try:
        client = distributed.Client.current()
    except ValueError:
        return None
    if client.asynchronous:
        raise InputError(
            "the current dask client is asynchronous: connect with Client(…, asynchronous=False)"
        )
    return client


class Cluster:
    """A client's workers, for readings of one table."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.topic = f"fwc-llm-{uuid4().hex}"
        self._checked: set[str] = set()

    def homes(self, partitions: Partitions, kind: str) -> list[str | None]:
        """The worker of every partition: the one that holds its rows, else a fair share of them in turn.

        Raises:
            InputError: no worker comes up, or one lacks this package or has another version of it; what was
                persisted is gone, or could not be read.
        """
        workers = self._ready()
        _check_held(partitions, kind)
        if any(future.cancelled() for future in partitions.futures.values()):
            raise self._dropped("rows")
        held = {key: future for key, future in partitions.futures.items() if future.status != "pending"}
        holders = self.client.who_has(list(held.values())) if held else {}
        threads = [workers[address].get("nthreads", 1) for address in workers]
        shares = _shares(len(partitions.loads), list(workers), threads)
        found: list[str | None] = []
        for load, share in zip(partitions.loads, shares, strict=True):
            lying = [key for key in load.needs if key in partitions.futures]
            places = [holders.get(key) or () for key in lying]
            # Rows come first among what a partition needs, and are its largest part.
            found.append(next((place[0] for place in places if place), None) if lying else share)
        return found

    def _ready(self) -> dict[str, Any]:
        """The workers by address, once there are some and they can do the work."""
        import dask

        workers = self._workers()
        if not workers:
            patience = dask.utils.parse_timedelta(dask.config.get("distributed.comm.timeouts.connect"))
            with suppress(TimeoutError):
                self.client.wait_for_workers(1, timeout=patience)
            workers = self._workers()
            if not workers:
                raise InputError(
                    f"the dask cluster {self._address} had no workers for {patience:g} seconds: start "
                    "some and wait for them (client.wait_for_workers(1))"
                )
        if self._address not in self._checked:
            check_versions({f"the scheduler {self._address}": self._of_scheduler()})
            self._checked.add(self._address)
        if fresh := [address for address in workers if address not in self._checked]:
            # By a function of Python's own: ours could not even be sent to a worker that lacks the package.
            found = self.client.run(resolve_name, _VERSION, workers=fresh, on_error="return")
            check_versions({f"the worker {address}": version for address, version in found.items()})
            self._checked.update(fresh)
        return workers

    @property
    def _address(self) -> str:
        return str(self.client.scheduler.address)

    def _workers(self) -> dict[str, Any]:
        return dict(self.client.scheduler_info(n_workers=-1)["workers"])

    def _of_scheduler(self) -> Any:
        try:
            return self.client.run_on_scheduler(resolve_name, _VERSION)
        except Exception as error:
            return error

    def compute(
        self, graph: Reduction, partitions: Partitions, name: str, tick: Callable[[int, int], None] | None
    ) -> Any:
        """The value of the graph's root.

        Raises:
            InputError: a partition cannot be read or computed, or the cluster cannot go on.
        """
        from dask.delayed import Delayed

        done: set[int] = set()
        if tick is not None:
            self.client.subscribe_topic(self.topic, lambda event: done.add(event[1]))
        root = Delayed(graph.root, graph.graph, layer=TOP)
        try:
            future = self.client.compute(root, optimize_graph=False, retries=_RETRIES)
        except Exception as error:  # such as what another client has persisted
            raise in_words(error, name) from error
        try:
            self._await(future, len(graph.tasks), done, tick)
            if future.status == "finished":
                result = future.result()
                if tick is not None:
                    tick(len(graph.tasks), len(graph.tasks))
                return result
            _check_held(partitions, name)  # what was still being persisted
            raise self._failure(future, graph, name)
        finally:
            with suppress(Exception):  # a client that is closed refuses both
                future.cancel()
                if tick is not None:
                    self.client.unsubscribe_topic(self.topic)

    def _await(
        self, future: Any, total: int, done: set[int], tick: Callable[[int, int], None] | None
    ) -> None:
        import distributed

        said = 0
        looked = time.monotonic()
        while not future.done():
            with suppress(TimeoutError, distributed.CancelledError):
                distributed.wait([future], timeout=_LOOK)
            if tick is not None and said < len(done) < total:
                said = len(done)
                tick(said, total)
            if time.monotonic() - looked > _WORKERS:
                looked = time.monotonic()
                self._ready()  # none left, or a new one that cannot do the work

    @property
    def closed(self) -> bool:
        """Whether the client is closed, or on its way there, as when its cluster is."""
        return bool(self.client.status != "running")

    def _dropped(self, what: str) -> InputError:
        return InputError(
            f"the dask cluster {self._address} has dropped {what}, as after a restart: persist the table "
            "again"
        )

    def _failure(self, future: Any, graph: Reduction, name: str) -> BaseException:
        """What went wrong, in words where it is not an error of our own."""
        import distributed

        if future.status != "error":
            return self._dropped(f"the work on {name}")
        error = future.exception()
        if isinstance(error, distributed.KilledWorker):
            index = graph.tasks.get(error.task)
            place = "the work" if index is None else f"partition {index}"
            return InputError(
                f"{place} of {name} ended {error.allowed_failures + 1} workers, the last at "
                f"{error.last_worker.address}: too little memory is likely: repartition the table into "
                "smaller partitions, or give workers more memory"
            )
        return in_words(error, name)


def closed(name: str) -> InputError:
    """The error for a client, or its cluster, that is closed while it reads a table."""
    return InputError(
        f"the dask client was closed while it read {name}, or its cluster was: connect a new client, persist "
        "again what was persisted, and fit again; with the same checkpoint the fit goes on from there"
    )


def _check_held(partitions: Partitions, name: str) -> None:
    """Refuse what could not be read when it was persisted."""
    held = partitions.futures
    for index, load in enumerate(partitions.loads):
        for key in load.needs:
            if key in held and held[key].status == "error":
                raise unreadable(index, name, held[key].exception())


def check_versions(found: Mapping[str, Any]) -> None:
    """`found` is the version, or why there is none, by who has it.

    Raises:
        InputError: one lacks this package or has another version of it.
    """
    for who, version in found.items():
        if isinstance(version, ImportError | AttributeError):
            raise InputError(
                f"{who} of the dask cluster lacks fwc_llm ({version}): install fwc-llm {__version__} there"
            )
        if isinstance(version, str) and version != __version__:
            raise InputError(
                f"{who} of the dask cluster has fwc-llm {version}, this process has {__version__}: "
                "install the same version on both"
            )


def _shares(count: int, workers: Sequence[str], threads: Sequence[int]) -> Iterable[str]:
    """A worker for each partition: neighbours go to the same one, as many as it has threads for."""
    total, place, upto = sum(threads), 0, threads[0]
    for index in range(count):
        while (index + 0.5) * total > upto * count and place < len(workers) - 1:
            place += 1
            upto += threads[place]
        yield workers[place]
