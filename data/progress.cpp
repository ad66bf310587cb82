// Bars on one file share a Screen, which knows the lines that they occupy: the cursor rests behind the last one.
#include <adjoint/data/progress.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/base/forked.h>

#include <algorithm>
#include <chrono>
#include <clocale>
#include <cmath>
#include <cwchar>
#include <map>
#include <mutex>

#include <locale.h>
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

/// While it lives, this thread decodes characters as UTF-8 in every locale.
class Utf8 {
 public:
  Utf8() : before_(kLocale != nullptr ? ::uselocale(kLocale) : nullptr) {}
  ~Utf8() {
    if (before_ != nullptr) ::uselocale(before_);
  }
  Utf8(const Utf8&) = delete;
  Utf8& operator=(const Utf8&) = delete;

 private:
  static inline const locale_t kLocale = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  locale_t before_;
};

/// f(start, bytes, columns) for each character, until f returns false. Control characters, such as newlines, have -1
/// columns; a byte that is not UTF-8 has 1.
template <class F>
void for_each_character(const std::string& text, F f) {
  constexpr wchar_t kAsPicture = 0xfe0f;  // displays the character before it as a picture, which is wide
  const Utf8 utf8;
  std::mbstate_t state{};
  for (std::size_t at = 0, bytes = 1; at < text.size(); at += bytes) {
    wchar_t character = 0;
    const std::size_t count = std::mbrtowc(&character, text.data() + at, text.size() - at, &state);
    const bool is_one = count >= 1 && count <= text.size() - at;
    if (!is_one) state = {};
    bytes = is_one ? count : 1;
    const int columns = is_one ? ::wcwidth(character) : text[at] == '\0' ? -1 : 1;
    if (!f(at, bytes, character == kAsPicture ? 1 : columns)) return;
  }
}

/// The beginning of UTF-8 text that fits into `columns`.
std::string cut(const std::string& text, int columns) {
  std::size_t end = 0;
  for_each_character(text, [&](std::size_t at, std::size_t bytes, int width) {
    columns -= width;
    if (columns >= 0) end = at + bytes;
    return columns >= 0;
  });
  return text.substr(0, end);
}

int width_of(const std::string& text) {
  int columns = 0;
  for_each_character(text, [&](std::size_t, std::size_t, int width) {
    columns += width;
    return true;
  });
  return columns;
}

/// The text with spaces for characters that would move the cursor.
std::string one_line(const std::string& text) {
  std::string line;
  for_each_character(text, [&](std::size_t at, std::size_t bytes, int width) {
    line += width < 0 ? " " : text.substr(at, bytes);
    return true;
  });
  return line;
}

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::mutex& mutex() {
  static std::mutex one;
  static const HeldAtFork at_fork(one);
  return one;
}

}  // namespace

class Progress::Bar {
 public:
  Bar(std::int64_t steps, ProgressOptions given)
      : options(printable(std::move(given))), total(steps), done(options.initial), started(now()), shown(started) {}

  static ProgressOptions printable(ProgressOptions given) {
    given.description = one_line(given.description);
    given.unit = one_line(given.unit);
    return given;
  }

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

  /// `line`, printed above the bars.
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
  int lines = 0;  // currently occupied by bars
};

Progress::Progress(std::int64_t total, ProgressOptions options) {
  ADJOINT_CHECK(total >= 0, "Progress: total must be at least 0; got {}", total);
  ADJOINT_CHECK(options.initial >= 0 && (total == 0 || options.initial <= total),
                "Progress: initial must be from 0 to the total, {}; got {}", total, options.initial);
  std::FILE* out = options.out != nullptr ? options.out : stderr;
  bar_ = Owned(new Bar(total, std::move(options)));
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
  } catch (...) {  // no memory for the text, or a user's clock that throws: the bar is removed anyway
    std::erase(screen_->bars, bar_.get());
  }
  screen_.reset();
}

void Progress::update(std::int64_t steps, Metrics metrics) {
  ADJOINT_CHECK(steps >= 0, "Progress: steps must be at least 0; got {}", steps);
  const std::lock_guard lock(mutex());
  bar_->done += steps;
  if (!metrics.empty()) bar_->metrics = std::move(metrics);
  for (auto& [name, value] : bar_->metrics) name = one_line(name);
  screen_->show(*bar_, false);
}

std::int64_t Progress::count() const { return bar_->done; }

void Progress::print(std::string_view text) {
  const std::lock_guard lock(mutex());
  screen_->write(screen_->above(text));
}

}  // namespace adjoint::data
