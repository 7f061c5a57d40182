"""The functions, and what they share."""

import gc

# A cold start makes objects that stay. To look for garbage among them after every 700 takes a fifth of its time.
gc.set_threshold(50_000, 20, 50)
