"""Models taken elsewhere: graphs that run without torch. A new task is one file and a line in EXPORTERS."""

from throughtime.export.write import EXPORTERS, FORMATS, export

__all__ = ["EXPORTERS", "FORMATS", "export"]
