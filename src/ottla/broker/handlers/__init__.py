"""One module per API, named as the API: the listing of this folder is the list of what a broker serves.

Each has `handle(broker, request, context) -> response`, plain or async; one that waits for others (the members of a
group) returns a future, so that it does not count as work in progress. It reads the request's message and answers with
the response's; what a client can cause is an error code in the answer, never an exception. Produce and Fetch carry the
data and work on frames directly.
"""
