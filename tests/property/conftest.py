"""Settings for property tests: reproducible in CI, and no deadline on a busy machine."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "quotaform", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], max_examples=100
)
settings.load_profile("quotaform")
