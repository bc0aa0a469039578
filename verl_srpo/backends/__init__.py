"""Hardware that verl itself does not cover."""
