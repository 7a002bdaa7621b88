"""What a node tells of itself in numbers, in the text form that Prometheus reads.

`families` declares every metric once, `exposition` writes the form, the `…_pages` fill it from brokers, controllers,
groups and the process at the moment somebody asks, and `scrape` puts a page together between other work.
"""
