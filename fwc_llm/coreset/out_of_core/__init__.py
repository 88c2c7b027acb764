"""Tables beyond memory: a sample is solved in memory, and readings of all rows certify the result.

* `blocks`: tables as blocks of rows, and threads that work on them;
* `tables`: files, pyarrow's datasets and memory maps;
* `dask_table`: frames and arrays of Dask, whose partitions are the blocks;
* `survey`: the first reading, which draws the sample;
* `certificate`: the second reading, which solves the inner problem of the whole table.
"""
