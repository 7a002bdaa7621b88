"""How a blocking object stands for an asynchronous one.

Owns: the object's life and its calls across threads. Never knows: which calls there are. Invariants: the object behind
is touched on the loop's thread only; after `close` nothing of it is left.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload

from ottla.client.blocking.background import Background, check_process, leave, use
from ottla.client.errors import ClientClosed

P = ParamSpec("P")
T = TypeVar("T")


class Closeable(Protocol):
    """An asynchronous client."""

    async def __aenter__(self) -> Any: ...

    async def close(self) -> None: ...


C = TypeVar("C", bound=Closeable)


class Face(ABC, Generic[C]):
    """Base of the blocking clients: a context manager, also usable without."""

    _what = "client"

    def __init__(self, make: Callable[[], C]) -> None:
        self._background: Background = use()
        self._closed = False
        try:
            self._inner: C = self._background.run(_started(make))
        except BaseException:
            self._closed = True
            leave(self._background)
            raise

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        self._check()
        return self._background.run(work())

    def _check(self) -> None:
        check_process(self._background, self._what)
        if self._closed:
            raise ClientClosed(f"the {self._what} is closed")

    def _end(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Close with `work`; does nothing the second time, nor in a fork, where there is nothing to close."""
        if self._closed or not self._background.is_here():
            return
        try:
            self._background.run(work())
        finally:
            self._closed = True
            leave(self._background)

    @abstractmethod
    def close(self) -> None:
        """End it; does nothing the second time."""

    def __enter__(self) -> Self:
        self._check()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


async def _started(make: Callable[[], C]) -> C:
    made = make()
    try:
        await made.__aenter__()
    except BaseException:
        await made.close()
        raise
    return made


async def _called(step: Callable[[], T]) -> T:
    return step()


class Blocked(Generic[P, T]):
    """A coroutine method as one that waits; what it takes and returns stays as it is."""

    def __init__(self, method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, face: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, face: Face[Any], owner: type[Any]) -> Callable[P, T]: ...
    def __get__(self, face: Face[Any] | None, owner: type[Any]) -> Any:
        if face is None:
            return self

        def call(*positional: P.args, **named: P.kwargs) -> T:
            return face._run(lambda: self._method(face._inner, *positional, **named))

        return call


class Reached(Generic[P, T]):
    """A plain method of an asynchronous client, called on its own thread."""

    def __init__(self, method: Callable[Concatenate[Any, P], T]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, face: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, face: Face[Any], owner: type[Any]) -> Callable[P, T]: ...
    def __get__(self, face: Face[Any] | None, owner: type[Any]) -> Any:
        if face is None:
            return self

        def call(*positional: P.args, **named: P.kwargs) -> T:
            return face._run(lambda: _called(lambda: self._method(face._inner, *positional, **named)))

        return call
