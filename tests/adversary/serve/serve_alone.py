"""Serves models until it is ended: `python serve_alone.py OPTIONS FOLDER...`, with the options as JSON.

`/longest` tells the CPU seconds of the longest step of the event loop since it was last asked; a busy machine
does not change them.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from pathlib import Path

from throughtime.serve.app import create_app
from throughtime.serve.models import Models
from throughtime.serve.requests import Options
from throughtime.serve.server import Server, format_address, listen
from throughtime.serve.service import prepare_interpreter

longest = 0.0
run_step = asyncio.Handle._run


def clock_step(handle: asyncio.Handle) -> None:
    global longest  # noqa: PLW0603
    began = time.thread_time()
    run_step(handle)
    if threading.current_thread() is threading.main_thread():  # others may run a loop that waits for nothing
        longest = max(longest, time.thread_time() - began)


async def tell_longest() -> float:
    global longest
    found, longest = longest, 0.0
    return found


def main() -> None:
    asyncio.Handle._run = clock_step
    options = Options(**json.loads(sys.argv[1]))
    models = Models.open([Path(one) for one in sys.argv[2:]], "cpu")
    with Path(os.devnull).open("w") as log, listen("127.0.0.1", 0) as listener:
        app = create_app(models, options, log=log)
        app.get("/longest")(tell_longest)
        prepare_interpreter()
        print(format_address(listener), flush=True)
        Server(app, options.timeout).run(sockets=[listener])


if __name__ == "__main__":
    main()
