"""`make bench`: every measured claim, one after the other."""

from bench import fleet

if __name__ == "__main__":
    fleet.main()
