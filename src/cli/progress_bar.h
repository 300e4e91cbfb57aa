// Shows how far a long job is: one line that is redrawn on a terminal, a plain line now and then
// elsewhere.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace firesteel {

class ProgressBar {
 public:
  using Write = std::function<void(std::string_view)>;

  // `width` columns are used on a terminal. `clock` must outlive this object.
  ProgressBar(Write write, bool is_terminal, int width, const Clock& clock);
  // To stderr, as wide as it is.
  static ProgressBar ToStderr();
  ~ProgressBar();  // Finish

  ProgressBar(ProgressBar&& other) noexcept;

  // `fraction` in [0, 1] of the job; `phase` says what is being done, `detail` how far in words.
  // Cheap: most calls write nothing.
  void Update(const std::string& phase, double fraction, const std::string& detail = "");
  // Takes the bar off the terminal, so that the next line starts clean. Harmless when repeated.
  void Finish();

 private:
  void Draw();
  void WriteLine();

  Write write_;
  bool is_terminal_;
  int width_;
  const Clock* clock_;
  int64_t start_ns_;
  int64_t written_ns_;  // the last time something was written
  std::string phase_;
  std::string detail_;
  double fraction_ = 0;
  bool shown_ = false;
};

}  // namespace firesteel
