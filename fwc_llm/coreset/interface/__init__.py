"""The face of scikit-learn's estimators, and what fitted representatives say of other rows.

* `parameters`: parameters by name, and tags;
* `routing`: which arguments of `fit` and `score` pipelines and searches pass on;
* `labels`: the cells of rows whose y and protected levels may be left out, and each row's representative;
* `not_fitted`: the error for an estimator before its fit;
* `represented`: representatives and what it costs to move rows of any table to them;
* `certificate`: how well given representatives stand for given rows;
* `applied`: `predict`, `transform`, `score` and `certify` of a fitted coreset.
"""
