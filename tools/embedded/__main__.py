"""Write the sentences that come with the package."""

from __future__ import annotations

from tools.embedded.corpus import FILE, write

if __name__ == "__main__":
    print(f"{write():,} bytes in {FILE}")
