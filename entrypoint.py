"""The same program in the container: environment in, exit code out."""

import sys

from gate.wiring import main

if __name__ == "__main__":
    sys.exit(main())
