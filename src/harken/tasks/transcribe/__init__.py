"""Speech to text without alignment: CTC."""
