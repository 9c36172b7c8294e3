"""Score rules: small functions on the scores of the next token and the tokens so far."""
