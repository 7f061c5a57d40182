"""The functions, and what they share."""

import gc

# A cold start makes objects that stay: to look for garbage after every 700 of them takes a fifth of its time.
gc.set_threshold(50_000, 20, 50)
