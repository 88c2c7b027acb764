"""What the first reading learns of the columns of a table in blocks, and how a block is then encoded.

* `factors`: the distinct values of a column, and each row's place among them;
* `moments`: ends, means and spreads of numbers, merged block by block;
* `categories`: the values of ordinal and categorical columns in the order of the whole table;
* `features`: all columns of a table, from which the encoding follows;
* `groups`: the labels, from which the cells follow;
* `draw`: the random sample;
* `reading`: blocks as the solver reads them.
"""
