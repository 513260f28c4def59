"""One custom scorer that asks the judge, written for several tools and run in each of them."""
