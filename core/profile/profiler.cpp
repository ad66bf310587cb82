#include <adjoint/core/profile/profiler.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/profile/profile_session.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#if defined(ADJOINT_WITH_CUDA)
#include <adjoint/core/cuda/profile.h>
#endif

namespace adjoint {

DeviceTimer::~DeviceTimer() = default;

namespace {

using detail::ProfiledKind;
using detail::ProfiledRow;
using detail::ProfiledSums;

// Bytes read and written per second by a copy of large blocks with all threads, run like an operator.
double measure_copy_rate() {
  constexpr std::int64_t kBytes = std::int64_t{1} << 26, kGrain = std::int64_t{1} << 20;
  try {
    std::vector<char> from(kBytes, 1), to(kBytes, 2);
    std::int64_t best = 0;
    for (int repeat = 0; repeat < 3; ++repeat) {
      const std::int64_t start = detail::profile_clock();
      parallel_ranges(kBytes, kGrain, [&](std::int64_t begin, std::int64_t end) {
        std::memcpy(to.data() + begin, from.data() + begin, static_cast<std::size_t>(end - begin));
      });
      const std::int64_t taken = std::max<std::int64_t>(detail::profile_clock() - start, 1);
      best = best == 0 ? taken : std::min(best, taken);
    }
    return 2e9 * static_cast<double>(kBytes) / static_cast<double>(best);
  } catch (const std::bad_alloc&) {
    return 0.0;
  }
}

// The rates of the floor; 0 for unknown ones.
class Rates {
 public:
  explicit Rates(const ProfilerOptions& options) : options_(options) {}

  double floor_seconds(const ProfiledRow& row, const ProfiledSums& sums) {
    const double copy = bytes_per_second(row.device), compute = flop_per_second(row);
    return std::max(copy > 0.0 ? sums.bytes / copy : 0.0, compute > 0.0 ? sums.flop / compute : 0.0);
  }

 private:
  double bytes_per_second(Device device) {
    if (options_.bytes_per_second > 0.0) return options_.bytes_per_second;
#if defined(ADJOINT_WITH_CUDA)
    if (device.is_cuda()) return cuda::peak_bytes_per_second(device.index);
#endif
    if (!device.is_cpu()) return 0.0;
    static const double copied = measure_copy_rate();
    return copied;
  }
  double flop_per_second([[maybe_unused]] const ProfiledRow& row) const {
    if (options_.flop_per_second > 0.0) return options_.flop_per_second;
#if defined(ADJOINT_WITH_CUDA)
    if (row.device.is_cuda()) return cuda::peak_flop_per_second(row.device.index, row.dtype, row.tf32);
#endif
    return 0.0;
  }

  const ProfilerOptions& options_;
};

constexpr double kMilli = 1e3, kNano = 1e-9, kGiga = 1e-9;

std::string cell(double value, int digits) { return value == 0.0 ? "-" : fmt::format("{:.{}f}", value, digits); }

std::string name_of(const ProfileRow& row) { return row.caller.empty() ? row.op : row.caller + '/' + row.op; }

struct Column {
  const char* title;
  bool left = false;
  std::string (*text)(const ProfileRow& row, double all_seconds);
};

constexpr Column kOperator{"operator", true, [](const ProfileRow& row, double) { return name_of(row); }};
constexpr Column kModule{"module", true, [](const ProfileRow& row, double) { return row.module; }};
constexpr Column kShapes{"operands", true, [](const ProfileRow& row, double) { return row.shapes; }};
constexpr Column kNumbers[] = {
    {"device", true, [](const ProfileRow& row, double) { return to_string(row.device); }},
    {"calls", false, [](const ProfileRow& row, double) { return fmt::format("{}", row.calls); }},
    {"host ms", false, [](const ProfileRow& row, double) { return cell(kMilli * row.host_seconds, 3); }},
    {"self ms", false, [](const ProfileRow& row, double) { return cell(kMilli * row.host_self_seconds, 3); }},
    {"device ms", false, [](const ProfileRow& row, double) { return cell(kMilli * row.device_seconds, 3); }},
    {"time %", false,
     [](const ProfileRow& row, double all) { return cell(all > 0.0 ? 100.0 * row.seconds() / all : 0.0, 1); }},
    {"GB", false, [](const ProfileRow& row, double) { return cell(kGiga * row.bytes, 4); }},
    {"GFLOP", false, [](const ProfileRow& row, double) { return cell(kGiga * row.flop, 4); }},
    {"floor %", false, [](const ProfileRow& row, double) { return cell(100.0 * row.floor_share(), 1); }},
};

std::string lay_out(const std::vector<Column>& columns, const std::vector<std::vector<std::string>>& lines) {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    widths.push_back(std::strlen(columns[c].title));
    for (const auto& line : lines) widths.back() = std::max(widths.back(), line[c].size());
  }
  std::string text;
  const auto put = [&](std::size_t c, std::string_view value) {
    if (c > 0) text += "  ";
    text += columns[c].left ? fmt::format("{:<{}}", value, widths[c]) : fmt::format("{:>{}}", value, widths[c]);
  };
  for (std::size_t c = 0; c < columns.size(); ++c) put(c, columns[c].title);
  text += '\n';
  for (const auto& line : lines) {
    for (std::size_t c = 0; c < columns.size(); ++c) put(c, line[c]);
    text += '\n';
  }
  return text;
}

}  // namespace

Profiler::Profiler(const ProfilerOptions& options) : session_(std::make_shared<detail::ProfileSession>()) {
  for (const auto& [name, rate] : {std::pair{"bytes_per_second", options.bytes_per_second},
                                   std::pair{"flop_per_second", options.flop_per_second}}) {
    ADJOINT_CHECK(rate >= 0.0 && std::isfinite(rate), "Profiler: {} must be finite and not negative; got {}", name,
                  rate);
  }
  session_->options = options;
#if defined(ADJOINT_WITH_CUDA)
  if (session_->options.device_timer == nullptr && cuda_is_available()) {
    session_->options.device_timer = cuda::make_event_timer();
  }
#endif
  detail::ProfileSession::start(session_);
}

Profiler::~Profiler() {
  try {
    stop();
  } catch (const std::exception&) {
    // A GPU that has failed reports it at its next use.
  }
  session_->result.reset();  // threads may still hold the session
}

void Profiler::stop() { session_->stop(); }

std::int64_t Profiler::untraced_calls() {
  stop();
  return session_->result->untraced;
}

std::vector<ProfileRow> Profiler::rows(const ProfileGrouping& grouping) {
  stop();
  const detail::ProfileResult& result = *session_->result;
  const std::lock_guard lock(session_->mutex);  // a running call may still add a row
  Rates rates(session_->options);
  std::map<std::tuple<std::string, std::string, std::string, std::string, DeviceType, int>, ProfileRow> merged;
  for (const ProfiledRow& row : session_->rows) {
    if (row.id >= result.sums.size() || row.kind == ProfiledKind::kModule) continue;
    const ProfiledSums& sums = result.sums[row.id];
    if (sums.calls == 0) continue;
    ProfileRow own{.device = row.device};
    if (grouping.by_operator) own.op = row.op, own.caller = row.caller;
    if (grouping.by_module) own.module = row.module;
    if (grouping.by_shape) own.shapes = row.shapes;
    ProfileRow& sum =
        merged.try_emplace({own.op, own.caller, own.module, own.shapes, row.device.type, row.device.index}, own)
            .first->second;
    sum.calls += sums.calls;
    sum.host_seconds += kNano * static_cast<double>(sums.host_ns);
    sum.host_self_seconds += kNano * static_cast<double>(sums.self_ns);
    if (row.id < result.device.seconds.size()) sum.device_seconds += result.device.seconds[row.id];
    sum.bytes += sums.bytes;
    sum.flop += sums.flop;
    sum.floor_seconds += rates.floor_seconds(row, sums);
  }
  std::vector<ProfileRow> rows;
  for (auto& [key, row] : merged) rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const ProfileRow& a, const ProfileRow& b) { return a.seconds() > b.seconds(); });
  return rows;
}

std::string Profiler::table(const ProfileTable& options) {
  const std::vector<ProfileRow> all = rows(options.grouping);
  std::vector<Column> columns;
  if (options.grouping.by_operator) columns.push_back(kOperator);
  if (options.grouping.by_module) columns.push_back(kModule);
  if (options.grouping.by_shape) columns.push_back(kShapes);
  columns.insert(columns.end(), std::begin(kNumbers), std::end(kNumbers));
  double seconds = 0.0;
  for (const ProfileRow& row : all) seconds += row.seconds();

  std::vector<std::vector<std::string>> lines;
  for (std::size_t i = 0; i < std::min(all.size(), options.rows); ++i) {
    lines.emplace_back();
    for (const Column& column : columns) lines.back().push_back(column.text(all[i], seconds));
  }
  std::string text = lay_out(columns, lines);
  double self = 0.0, device = 0.0;
  std::int64_t calls = 0;
  for (const ProfileRow& row : all) {
    calls += row.calls;
    self += row.host_self_seconds;
    device += row.device_seconds;
  }
  text += fmt::format("{} of {} rows; all: {} calls, {:.3f} ms of threads of the host", lines.size(), all.size(), calls,
                      kMilli * self);
  if (device > 0.0) text += fmt::format(", {:.3f} ms of GPUs", kMilli * device);
  return text + '\n';
}

}  // namespace adjoint
