"""What torch saved, read without being trusted, whoever saved it."""
