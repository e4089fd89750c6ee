"""Native execution: kernel IR, its executors, the arithmetic in it, and the driver that runs an entry as a table of launches."""
