"""What clients use of their quotas: recorded, compared with limits, replayed, and turned into limits that fit."""
