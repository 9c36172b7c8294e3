"""Speech to text without alignment: CTC (S14)."""
