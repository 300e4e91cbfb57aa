#include "engine/draft_guard.h"

#include <algorithm>

namespace firesteel {

bool DraftGuard::Allows() {
  if (closed_for_ == 0) return true;
  --closed_for_;
  return false;
}

void DraftGuard::Observe(double tokens, double seconds, double plain_tokens, double plain_seconds) {
  if (!(plain_seconds > 0)) return;
  tokens_ += tokens;
  plain_tokens_ += plain_tokens * seconds / plain_seconds;
  if (++steps_ < kWindow) return;
  if (tokens_ < kTolerance * plain_tokens_) {
    closed_for_ = next_closed_;
    next_closed_ = std::min(2 * next_closed_, kLongestClosed);
  } else {
    next_closed_ = kFirstClosed;
  }
  tokens_ = plain_tokens_ = 0;
  steps_ = 0;
}

}  // namespace firesteel
