"""Tables of Dask: their partitions are the blocks, and work on them runs where they lie.

* `given`: what a caller passed, checked and aligned;
* `partitions`: what each partition needs of the caller's graph;
* `graph`: one task for each partition, and the tree that merges what these return;
* `client`: a cluster's workers: which version, who holds what, how far they are, what went wrong;
* `source`: the source.
"""
