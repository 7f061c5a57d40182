"""`make bench`: every measured claim, one after the other."""

import sys

from bench import fleet, polling

if __name__ == "__main__":
    sys.exit(fleet.main() or polling.main())
