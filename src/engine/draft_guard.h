// The last guard of "never worse": whether drafting really brought what it was to bring. Where the
// model of costs or chances is wrong, decisions by it are too; this looks at tokens and seconds
// alone.
//
// Engine thread only.
#pragma once

#include <cstdint>

namespace firesteel {

class DraftGuard {
 public:
  // Whether this step may draft. Called once a step.
  bool Allows();

  // A step that drafted: what it gave and took, and what plain decoding would have.
  void Observe(double tokens, double seconds, double plain_tokens, double plain_seconds);

 private:
  // Of the window: tokens, and those that plain decoding gives in the same time.
  double tokens_ = 0, plain_tokens_ = 0;
  int32_t steps_ = 0;
  int64_t closed_for_ = 0;  // steps still without drafts
  int64_t next_closed_ = kFirstClosed;

  static constexpr int32_t kWindow = 64;
  static constexpr double kTolerance = 0.98;
  static constexpr int64_t kFirstClosed = 256, kLongestClosed = 4096;
};

}  // namespace firesteel
