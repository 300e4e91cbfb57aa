#include "cli/progress_bar.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace firesteel {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr int64_t kRedrawNs = kNsPerSecond / 10;
// What ends sooner needs no bar, and a log no line.
constexpr int64_t kQuietNs = kNsPerSecond / 2;
constexpr int64_t kPlainIntervalNs = 10 * kNsPerSecond;
constexpr int kBarColumns = 24;
constexpr char kEraseLine[] = "\r\x1b[2K";

std::string Remaining(int64_t elapsed_ns, double fraction) {
  if (fraction < 0.05 || fraction >= 1) return "";
  const double seconds = static_cast<double>(elapsed_ns) / kNsPerSecond * (1 - fraction) / fraction;
  if (seconds < 90) return fmt::format(", {:.0f} s left", seconds);
  return fmt::format(", {:.0f} min left", seconds / 60);
}

// `text` cut to `columns` bytes without cutting a character.
std::string Cut(std::string text, int columns) {
  if (static_cast<int>(text.size()) <= columns) return text;
  size_t end = static_cast<size_t>(std::max(columns, 0));
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

}  // namespace

ProgressBar::ProgressBar(Write write, bool is_terminal, int width, const Clock& clock)
    : write_(std::move(write)),
      is_terminal_(is_terminal),
      width_(width),
      clock_(&clock),
      start_ns_(clock.NowNs()),
      written_ns_(start_ns_) {}

ProgressBar::ProgressBar(ProgressBar&& other) noexcept
    : write_(std::exchange(other.write_, nullptr)),
      is_terminal_(other.is_terminal_),
      width_(other.width_),
      clock_(other.clock_),
      start_ns_(other.start_ns_),
      written_ns_(other.written_ns_),
      phase_(std::move(other.phase_)),
      detail_(std::move(other.detail_)),
      fraction_(other.fraction_),
      shown_(std::exchange(other.shown_, false)) {}

ProgressBar ProgressBar::ToStderr() {
  winsize size{};
  const bool is_terminal = isatty(STDERR_FILENO) != 0;
  if (!is_terminal || ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    size.ws_col = 80;
  return ProgressBar([](std::string_view text) { fmt::print(stderr, "{}", text); }, is_terminal,
                     size.ws_col, Clock::Real());
}

ProgressBar::~ProgressBar() { Finish(); }

void ProgressBar::Update(const std::string& phase, double fraction, const std::string& detail) {
  const bool new_phase = phase != phase_;
  phase_ = phase;
  detail_ = detail.empty() ? "" : ": " + detail;
  fraction_ = std::clamp(fraction, 0.0, 1.0);
  const int64_t now_ns = clock_->NowNs();
  if (!shown_ && now_ns - start_ns_ < kQuietNs) return;
  if (is_terminal_) {
    if (shown_ && now_ns - written_ns_ < kRedrawNs && fraction_ < 1) return;
    Draw();
  } else {
    if (shown_ && !new_phase && now_ns - written_ns_ < kPlainIntervalNs) return;
    WriteLine();
  }
  shown_ = true;
  written_ns_ = now_ns;
}

void ProgressBar::Draw() {
  const int filled = static_cast<int>(fraction_ * kBarColumns);
  const std::string bar = std::string(static_cast<size_t>(filled), '#') +
                          std::string(static_cast<size_t>(kBarColumns - filled), '.');
  const std::string line = fmt::format("[{}] {:3.0f} % {}{}{}", bar, 100 * fraction_, phase_,
                                       detail_, Remaining(clock_->NowNs() - start_ns_, fraction_));
  write_(kEraseLine + Cut(line, width_ - 1));
}

void ProgressBar::WriteLine() {
  write_(fmt::format("{:.0f} % {}{}{}\n", 100 * fraction_, phase_, detail_,
                     Remaining(clock_->NowNs() - start_ns_, fraction_)));
}

void ProgressBar::Finish() {
  if (shown_ && is_terminal_) write_(kEraseLine);
  shown_ = false;
  start_ns_ = clock_->NowNs();
}

}  // namespace firesteel
