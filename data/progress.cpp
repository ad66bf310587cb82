// Bars that share a file share a Screen, which knows the lines that they occupy: the cursor rests behind the last one.
#include <adjoint/data/progress.h>

#include <adjoint/core/check.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <mutex>

#include <sys/ioctl.h>
#include <unistd.h>

namespace adjoint::data {
namespace {

std::string clock_time(double seconds) {
  if (!(seconds < 1e9)) return "?";
  const auto whole = static_cast<std::int64_t>(std::ceil(seconds));
  return whole >= 3600 ? fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
                       : fmt::format("{}:{:02}", whole / 60, whole % 60);
}

// Eighths of a block, so that the bar moves smoothly.
std::string blocks(double fraction, int columns) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * columns * 8.0);
  std::string bar;
  for (int i = 0; i < eighths / 8; ++i) bar += "█";
  bar += kEighths[eighths % 8];
  bar.append(static_cast<std::size_t>(columns - (eighths + 7) / 8), ' ');
  return bar;
}

/// The first `columns` characters of UTF-8 text, or fewer.
std::string cut(const std::string& text, int columns) {
  int used = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
    if (begins && used++ == columns) return text.substr(0, i);
  }
  return text;
}

int width_of(const std::string& text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::mutex& mutex() {
  static std::mutex one;
  return one;
}

}  // namespace

class Progress::Bar {
 public:
  Bar(std::int64_t steps, ProgressOptions given)
      : options(std::move(given)), total(steps), done(options.initial), started(now()), shown(started) {}

  double now() const { return options.clock ? options.clock() : monotonic_seconds(); }

  std::string counts() const {
    const std::string before = options.description.empty() ? "" : options.description + " ";
    if (total == 0) return fmt::format("{}{}", before, done);
    return fmt::format("{}{:>{}}/{}", before, done, fmt::formatted_size("{}", total), total);
  }

  std::string figures() const {
    const double spent = now() - started, counted = static_cast<double>(done - options.initial);
    std::string text = clock_time(std::max(spent, 0.0));
    if (counted > 0.0 && spent > 0.0) {
      text += fmt::format("  {:.3g} {}/s", counted / spent, options.unit);
      if (done < total) text += "  " + clock_time(spent / counted * static_cast<double>(total - done)) + " left";
    }
    for (const auto& [name, value] : metrics) text += fmt::format("  {} {:.4g}", name, value);
    return text;
  }

  std::string line(int columns) const {
    const std::string count = counts(), text = figures();
    const int room = std::min(columns - width_of(count) - width_of(text) - 5, 40);
    if (total == 0 || room < 4) return cut(count + "  " + text, columns - 1);
    return fmt::format("{} │{}│ {}", count, blocks(static_cast<double>(done) / static_cast<double>(total), room), text);
  }

  const ProgressOptions options;
  const std::int64_t total;
  std::int64_t done;
  Metrics metrics;
  double started, shown;
};

/// The living bars of a file, the outermost first.
struct Progress::Screen {
  explicit Screen(std::FILE* file) : out(file), is_terminal(::isatty(::fileno(file)) != 0) {}

  static std::shared_ptr<Screen> of(std::FILE* file) {
    static std::map<std::FILE*, std::weak_ptr<Screen>> screens;
    std::shared_ptr<Screen> screen = screens[file].lock();
    if (screen == nullptr) screens[file] = screen = std::make_shared<Screen>(file);
    std::erase_if(screens, [](const auto& entry) { return entry.second.expired(); });
    return screen;
  }

  bool draws(const Bar& bar) const { return bar.options.terminal.value_or(is_terminal); }

  int columns(const Bar& bar) const {
    if (bar.options.columns > 0) return bar.options.columns;
    winsize size{};
    return ::ioctl(::fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  }

  std::string wiped() {
    std::string text;
    for (; lines > 1; --lines) text += "\r\x1b[K\x1b[A";
    if (lines == 1) text += "\r\x1b[K";
    lines = 0;
    return text;
  }

  std::string drawn() {
    std::string text = wiped();
    for (const Bar* bar : bars) {
      if (!draws(*bar)) continue;
      if (lines++ > 0) text += '\n';
      text += bar->line(columns(*bar));
    }
    return text;
  }

  /// `line`, and the bars below it.
  std::string above(std::string_view line) {
    std::string text = wiped();
    text += line;
    text += '\n';
    return text + drawn();
  }

  void show(Bar& bar, bool last) {
    const double now = bar.now();
    const bool draw = draws(bar), outermost = bars.front() == &bar;
    const double interval = bar.options.interval >= 0.0 ? bar.options.interval : (draw ? 0.1 : 10.0);
    if (now - bar.shown < interval && !(last && outermost)) return;
    bar.shown = now;
    write(draw ? drawn() : above(bar.counts() + "  " + bar.figures()));
  }

  void write(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), out);
    std::fflush(out);
  }

  std::FILE* out;
  bool is_terminal;
  std::vector<Bar*> bars;
  int lines = 0;  // that bars occupy now
};

Progress::Progress(std::int64_t total, ProgressOptions options) {
  ADJOINT_CHECK(total >= 0, "Progress: total must be at least 0; got {}", total);
  ADJOINT_CHECK(options.initial >= 0 && (total == 0 || options.initial <= total),
                "Progress: initial must be from 0 to the total, {}; got {}", total, options.initial);
  std::FILE* out = options.out != nullptr ? options.out : stderr;
  bar_ = std::make_unique<Bar>(total, std::move(options));
  const std::lock_guard lock(mutex());
  screen_ = Screen::of(out);
  screen_->bars.push_back(bar_.get());
}

Progress::~Progress() {
  const std::lock_guard lock(mutex());
  try {
    screen_->show(*bar_, true);
    const bool stays = screen_->bars.size() == 1 && screen_->lines > 0;
    std::string text = stays ? "\n" : screen_->wiped();
    if (stays) screen_->lines = 0;
    std::erase(screen_->bars, bar_.get());
    screen_->write(text + screen_->drawn());
  } catch (...) {  // no memory for the text, or a clock of the user's that throws: the bar is gone all the same
    std::erase(screen_->bars, bar_.get());
  }
  screen_.reset();
}

void Progress::update(std::int64_t steps, Metrics metrics) {
  ADJOINT_CHECK(steps >= 0, "Progress: steps must be at least 0; got {}", steps);
  const std::lock_guard lock(mutex());
  bar_->done += steps;
  if (!metrics.empty()) bar_->metrics = std::move(metrics);
  screen_->show(*bar_, false);
}

std::int64_t Progress::count() const { return bar_->done; }

void Progress::print(std::string_view text) {
  const std::lock_guard lock(mutex());
  screen_->write(screen_->above(text));
}

}  // namespace adjoint::data
