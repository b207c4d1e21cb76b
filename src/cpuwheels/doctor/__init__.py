"""Everything a build needs, checked before it starts: asking is apart from judging."""
