"""What a test needs done to a client's connection: hold it, reset it, flood it, cut it off."""

import asyncio
import socket
import struct

from aiohttp import web

LOOK_EVERY_SECONDS = 0.02
CHUNK = b"x" * 65536
# Lingering for no time makes the kernel send a reset instead of an orderly end.
NO_LINGER = struct.pack("ii", 1, 0)


def gone(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


async def hold(request: web.Request, seconds: float | None = None) -> None:
    """Say nothing until the client goes, or for that long."""
    loop = asyncio.get_running_loop()
    end = None if seconds is None else loop.time() + seconds
    while not gone(request) and (end is None or loop.time() < end):
        await asyncio.sleep(LOOK_EVERY_SECONDS)


def reset(request: web.Request) -> web.Response:
    """Cut the connection without an answer; the response that is returned reaches nobody."""
    transport = request.transport
    if transport is not None:
        sock = transport.get_extra_info("socket")
        if sock is not None and not transport.is_closing():
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        transport.abort()
    return web.Response()


async def flood(request: web.Request, status: int, headers: dict[str, str]) -> web.StreamResponse:
    """An answer without end, at a pace that leaves the processor to others."""
    response = web.StreamResponse(status=status, headers=headers)
    await response.prepare(request)
    while not gone(request):
        try:
            await response.write(CHUNK)
        except ConnectionError:
            break
        await asyncio.sleep(LOOK_EVERY_SECONDS)
    return response


async def fill(request: web.Request, status: int, size: int, content_type: str) -> web.StreamResponse:
    """A body of that many bytes, made as it is sent."""
    response = web.StreamResponse(status=status, headers={"Content-Type": content_type})
    response.content_length = size
    await response.prepare(request)
    for start in range(0, size, len(CHUNK)):
        try:
            await response.write(CHUNK[: size - start])
        except ConnectionError:
            break
    return response


async def cut_off(request: web.Request, body: bytes) -> web.StreamResponse:
    """Promise a whole body, send half of it and go."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.content_length = len(body)
    await response.prepare(request)
    await response.write(body[: len(body) // 2])
    await asyncio.sleep(LOOK_EVERY_SECONDS)
    reset(request)
    return response
