"""Links and tags over HTTP: requests gathered into rounds, one model for all of them."""
