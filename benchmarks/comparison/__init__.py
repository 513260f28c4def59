"""One custom scorer that calls the judge, written for several tools and run in each of them."""
