"""Tables beyond memory: a sample is solved in memory, and readings of all rows certify the result.

* `blocks`: tables as blocks of rows, and threads that work on them;
* `sources`: files, pyarrow's datasets, memory maps;
* `dask_blocks`: frames and arrays of Dask, whose partitions are the blocks;
* `survey`: the first reading, which draws the sample;
* `certificate`: the second reading, which solves the inner problem of the whole table.
"""
