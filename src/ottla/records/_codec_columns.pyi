from ottla.records._pure_columns import ColumnBuffers as ColumnBuffers
from ottla.records._pure_columns import FieldColumn as FieldColumn
from ottla.records._pure_columns import HeaderColumn as HeaderColumn
from ottla.records._pure_columns import NumberColumn as NumberColumn
from ottla.records._pure_columns import RowSource as RowSource
from ottla.records._pure_columns import choose_partitions as choose_partitions
from ottla.records._pure_columns import encode_rows as encode_rows
from ottla.records._pure_columns import group_rows as group_rows
