"""What an operator does to a cluster; `ottla.Admin` is all of it in one object."""
