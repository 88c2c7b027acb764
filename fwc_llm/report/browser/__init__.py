"""Every row of a run or an audit, as the data of the page's browser of rows."""
