"""The functions, and what they share."""

import gc

# A cold start makes objects that stay: to look for garbage among them takes a fifth of its time. `prepare`
# sets what holds from then on.
gc.set_threshold(1_000_000, 20, 50)
