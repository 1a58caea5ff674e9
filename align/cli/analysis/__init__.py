"""`analyse-attention`: questions about the attention inside a model, a file a command."""
