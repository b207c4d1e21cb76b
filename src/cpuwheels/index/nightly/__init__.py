"""The nightly job: wheels of the newest commits, built, tested and published."""
