"""Serves models until it is ended: `python serve_alone.py OPTIONS FOLDER...`, with the options as JSON."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from throughtime.serve.app import create_app
from throughtime.serve.models import Models
from throughtime.serve.requests import Options
from throughtime.serve.server import Server, format_address, listen
from throughtime.serve.service import prepare_interpreter


def main() -> None:
    options = Options(**json.loads(sys.argv[1]))
    models = Models.open([Path(one) for one in sys.argv[2:]], "cpu")
    with Path(os.devnull).open("w") as log, listen("127.0.0.1", 0) as listener:
        app = create_app(models, options, log=log)
        prepare_interpreter()
        print(format_address(listener), flush=True)
        Server(app, options.timeout).run(sockets=[listener])


if __name__ == "__main__":
    main()
