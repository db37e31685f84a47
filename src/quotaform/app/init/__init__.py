"""Beginning: live quotas to files, and the files of a new quota repository."""
