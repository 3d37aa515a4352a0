"""Write the sentences and the gestures that come with the package."""

from __future__ import annotations

from tools.embedded import corpus, gestures

if __name__ == "__main__":
    for part in (corpus, gestures):
        print(f"{part.write():,} bytes in {part.FILE}")
