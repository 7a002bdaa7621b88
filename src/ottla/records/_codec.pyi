from ottla.records._pure import decode as decode
from ottla.records._pure import decode_consumed as decode_consumed
from ottla.records._pure import encode as encode
from ottla.records._pure import find_timestamp as find_timestamp
from ottla.records._pure import inspect as inspect
from ottla.records._pure import latest_timestamp as latest_timestamp
from ottla.records._pure import murmur2 as murmur2
from ottla.records._pure import scan as scan
