"""The nightly job: wheels of the newest commits, built, tried and published."""
