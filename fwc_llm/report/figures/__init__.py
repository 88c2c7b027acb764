"""The page's charts as files that a person keeps: SVG always, PNG where matplotlib is installed."""
