"""`quotaform usage`: the usage of quotas: recorded, compared with limits, replayed, and turned into limits that fit."""
