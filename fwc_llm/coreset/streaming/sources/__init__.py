"""Where blocks of rows come from: files of Arrow's formats, memory maps, blocks of the caller's own.

* `opening`: what a caller gave, as a source; None for an ordinary table;
* `arrow`: Parquet files and all else that a pyarrow `Dataset` reads;
* `schemas`: the columns that its files share;
* `mapped`: arrays in files;
* `given_blocks`: blocks that the caller makes;
* `pool`: threads that read blocks and work on them.
"""
