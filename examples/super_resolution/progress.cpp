#include "progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include <sys/ioctl.h>
#include <unistd.h>

namespace super_resolution {
namespace {

std::size_t terminal_columns() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string clock_time(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::ceil(seconds));
  return whole >= 3600 ? fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
                       : fmt::format("{}:{:02}", whole / 60, whole % 60);
}

// Eighths of a block, so that the bar moves smoothly.
std::string bar_of(double fraction, std::size_t columns) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = static_cast<std::size_t>(std::clamp(fraction, 0.0, 1.0) * static_cast<double>(columns) * 8.0);
  std::string bar;
  for (std::size_t i = 0; i < eighths / 8; ++i) bar += "█";
  bar += kEighths[eighths % 8];
  const std::size_t used = eighths / 8 + (eighths % 8 != 0 ? 1 : 0);
  bar.append(columns - std::min(columns, used), ' ');
  return bar;
}

}  // namespace

Progress::Progress()
    : terminal_(::isatty(STDOUT_FILENO) != 0), started_(std::chrono::steady_clock::now()), shown_(started_) {}

Progress::~Progress() { clear(); }

void Progress::clear() {
  if (drawn_) fmt::print("\r\x1b[K");
  drawn_ = false;
}

void Progress::show(const Status& status, bool important) {
  const auto now = std::chrono::steady_clock::now();
  if (first_step_ < 0) {
    first_step_ = status.step;
    started_ = now;
  }
  if (!important && (!terminal_ || now - shown_ < std::chrono::milliseconds(100))) return;
  shown_ = now;

  const double spent = std::chrono::duration<double>(now - started_).count();
  const auto done = static_cast<double>(status.step - first_step_),
             rest = static_cast<double>(status.steps - status.step);
  std::string text = fmt::format("loss {:.5f}  PSNR {:.2f} dB (bicubic {:+.2f})  {:.0f} images/s", status.loss,
                                 status.psnr, status.psnr - status.bicubic_psnr, status.images_per_second);
  if (done > 0.0 && rest > 0.0) text += "  " + clock_time(spent / done * rest) + " left";
  const std::string count =
      fmt::format("{:>{}}/{}", status.step, fmt::formatted_size("{}", status.steps), status.steps);

  clear();
  if (important || !terminal_) {
    fmt::print("step {}  {}\n", count, text);
  } else {
    const std::size_t columns = terminal_columns(), needed = count.size() + text.size() + 8;
    const std::size_t room = columns > needed ? std::min<std::size_t>(columns - needed, 40) : 0;
    if (room > 4)
      fmt::print("{} │{}│ {}", count,
                 bar_of(static_cast<double>(status.step) / static_cast<double>(status.steps), room), text);
    else
      fmt::print("{}", (count + "  " + text).substr(0, columns - 1));
    drawn_ = true;
  }
  std::fflush(stdout);
}

}  // namespace super_resolution
