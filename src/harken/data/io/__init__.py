"""Reading files and tables, and flat storage for rows of unequal length."""
