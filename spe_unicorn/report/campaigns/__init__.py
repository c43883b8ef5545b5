"""The runs of a campaign: tables, a page, and JUnit's XML."""
