"""`make bench`: every measured claim, one after the other."""

import sys

from bench import bill, command_line, creating, fleet, polling

if __name__ == "__main__":
    sys.exit(any([bill.main(), command_line.main(), creating.main(), fleet.main(), polling.main()]))
