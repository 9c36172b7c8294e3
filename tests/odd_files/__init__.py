"""Files as other programs write them: each is read right, or refused with the remedy."""
