"""The client for threads and scripts: the asynchronous objects on an event loop of their own; see `ottla.blocking`."""
