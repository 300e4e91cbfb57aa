"""Learning rates tied to the clock: warm up, stay, and decay linearly to nothing at the deadline."""
import argparse
import datetime
import time

WARMUP_STEPS = 60
DECAY_SHARE = 0.4  # of the whole run


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--minutes", type=float, help="length of the whole run, including what earlier runs took")
    group.add_argument("--until", metavar="HH:MM", help="end at this time of day (local clock)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--fresh", action="store_true", help="ignore an existing checkpoint")
    return parser


class Clock:
    def __init__(self, args, spent, default_minutes):
        """`spent`: seconds that earlier runs of the same training took."""
        self.spent, self.start = spent, time.time()
        if args.until:
            hour, minute = map(int, args.until.split(":"))
            end = datetime.datetime.now().replace(hour=hour, minute=minute, second=0)
            self.total = spent + max(0.0, end.timestamp() - self.start)
        else:
            self.total = 60 * (args.minutes or default_minutes)

    def elapsed(self):
        return self.spent + time.time() - self.start

    def remaining(self):
        return self.total - self.elapsed()

    def multiplier(self, step):
        decay = self.remaining() / (DECAY_SHARE * self.total)
        return max(0.0, min(1.0, decay, (step + 1) / WARMUP_STEPS))
